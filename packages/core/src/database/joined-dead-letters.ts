import type {
  DeadLetter,
  DeadLetterFilter,
  DeadLetterPage,
  DeadLetterPosition,
  DeadLetterStore,
  KeptError,
  ParkedMessage,
  StoredPayload,
} from '../ports/dead-letter-store.ts'

/** The position before all messages of local consumers, in calls that treat these last. */
const BEFORE_LOCAL: DeadLetterPosition = { id: '', place: '0', local: true }

/**
 * The dead letters of the outbox and those of the local consumers as one store. A filter with a `consumer` selects only
 * messages of this consumer. `list` is in the order of the ids, and a page also holds the other dead letters that have the
 * same id as its last one. All other calls treat the messages of the outbox first.
 */
export class JoinedDeadLetterStore implements DeadLetterStore {
  readonly #outbox: DeadLetterStore
  readonly #local: DeadLetterStore

  constructor(outbox: DeadLetterStore, local: DeadLetterStore) {
    this.#outbox = outbox
    this.#local = local
  }

  async list(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage> {
    const parts = []
    for (const store of this.#stores(filter)) parts.push(await pageWithWholeId(store, filter, limit))
    // Beyond the end of a part that goes on, messages are missing.
    const ends = parts.flatMap(({ end }) => (end === undefined ? [] : [end])).toSorted(byBytes)
    const all = parts
      .flatMap(({ messages }) => messages)
      .filter(({ id }) => ends.length === 0 || byBytes(id, ends[0]!) <= 0)
      .toSorted((a, b) => byBytes(a.id, b.id))
    const last = all[limit - 1]?.id ?? ends[0]
    const messages = last === undefined ? all : all.filter(({ id }) => byBytes(id, last) <= 0)
    const more = ends.length > 0 || messages.length < all.length
    return { messages, next: more && last !== undefined ? { id: last } : undefined }
  }

  redrive(filter: DeadLetterFilter, limit: number, by: string): Promise<DeadLetterPage> {
    return this.#inTurn(filter, limit, (store, part, room) => store.redrive(part, room, by))
  }

  discard(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage> {
    return this.#inTurn(filter, limit, (store, part, room) => store.discard(part, room))
  }

  listParked(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>> {
    return this.#inTurn(filter, limit, (store, part, room) => store.listParked(part, room))
  }

  discardParked(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>> {
    return this.#inTurn(filter, limit, (store, part, room) => store.discardParked(part, room))
  }

  retry(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>> {
    return this.#inTurn(filter, limit, (store, part, room) => store.retry(part, room))
  }

  async newest(filter: DeadLetterFilter, limit: number): Promise<readonly DeadLetter[]> {
    const letters: DeadLetter[] = []
    for (const store of this.#stores(filter)) {
      for (const letter of await store.newest(filter, limit)) letters.push(letter)
    }
    return letters.toSorted((a, b) => b.deadAt.getTime() - a.deadAt.getTime()).slice(0, limit)
  }

  payloads(id: string, parked: boolean, limit: number, consumer?: string): Promise<readonly StoredPayload[]> {
    return this.#ofId(consumer, (store) => store.payloads(id, parked, limit, consumer))
  }

  errors(
    id: string,
    parked: boolean,
    limit: number,
    consumer?: string,
  ): Promise<readonly (readonly KeptError[])[]> {
    return this.#ofId(consumer, (store) => store.errors(id, parked, limit, consumer))
  }

  #stores({ consumer }: Pick<DeadLetterFilter, 'consumer'>): readonly DeadLetterStore[] {
    return consumer === undefined ? [this.#outbox, this.#local] : [this.#local]
  }

  async #ofId<R>(
    consumer: string | undefined,
    read: (store: DeadLetterStore) => Promise<readonly R[]>,
  ): Promise<readonly R[]> {
    const found: R[] = []
    for (const store of this.#stores({ consumer })) found.push(...(await read(store)))
    return found
  }

  /** A page that begins with the last messages of the outbox goes on with those of the local consumers. */
  async #inTurn<M>(
    filter: DeadLetterFilter,
    limit: number,
    call: (store: DeadLetterStore, filter: DeadLetterFilter, room: number) => Promise<DeadLetterPage<M>>,
  ): Promise<DeadLetterPage<M>> {
    const ofLocal = async (
      after: DeadLetterPosition | undefined,
      room: number,
    ): Promise<DeadLetterPage<M>> => {
      const { messages, next } = await call(this.#local, { ...filter, after }, room)
      return { messages, next: next && { ...next, local: true } }
    }
    if (filter.consumer !== undefined || filter.after?.local === true) return ofLocal(filter.after, limit)
    const { messages, next } = await call(this.#outbox, filter, limit)
    if (next !== undefined) return { messages, next }
    const room = limit - messages.length
    if (room <= 0) return { messages, next: BEFORE_LOCAL }
    const rest = await ofLocal(undefined, room)
    return { messages: [...messages, ...rest.messages], next: rest.next }
  }
}

/** Returns a page and the other messages that have the same id as its last one. `end` is this id, if more messages may follow. */
async function pageWithWholeId(
  store: DeadLetterStore,
  filter: DeadLetterFilter,
  limit: number,
): Promise<{ readonly messages: readonly DeadLetter[]; readonly end: string | undefined }> {
  const { messages, next } = await store.list(filter, limit)
  const all = [...messages]
  for (let after = next; after !== undefined;) {
    const page = await store.list({ ...filter, ids: [after.id], after }, limit)
    all.push(...page.messages)
    after = page.next
  }
  return { messages: all, end: next?.id }
}

/** The order of the databases, which compare ids byte for byte. */
function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
