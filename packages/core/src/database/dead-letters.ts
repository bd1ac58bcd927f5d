import { hostname, userInfo } from 'node:os'
import { InvalidOptionError } from '../errors/errors.ts'
import { LIMITS } from '../options/limits.ts'
import { OptionChecker } from '../options/options.ts'
import type { ConnectedPorts } from '../ports/database-ports.ts'
import type {
  DeadLetter,
  DeadLetterFilter,
  DeadLetterPage,
  DeadLetterStore,
} from '../ports/dead-letter-store.ts'
import { JoinedDeadLetterStore } from './joined-dead-letters.ts'

const PAGE = 1000
const STATEMENT_TIMEOUT_MS = 60_000
/** The maximum length of the part of an error that selects dead letters. */
const ERROR_CHARACTERS = 1000
const NAMES = ['ids', 'topic', 'type', 'key', 'consumer', 'error'] as const
type Name = (typeof NAMES)[number]

/** Selects the dead letters that match all of the given fields. */
export interface DeadLetterSelection {
  /** At most 10,000 ids. */
  readonly ids?: readonly string[] | undefined
  readonly topic?: string | undefined
  readonly type?: string | undefined
  /** The ordering key. */
  readonly key?: string | undefined
  /** A local consumer: only messages that are dead at this consumer. */
  readonly consumer?: string | undefined
  /** A text that the error contains, of at most 1000 characters. No index finds it: all other dead letters are read, too. */
  readonly error?: string | undefined
}

/**
 * Lists, redrives and discards dead letters: those of the outbox, and those of the local consumers. A message may be dead at
 * several consumers; each is a dead letter of its own, and a selection without a consumer selects them all.
 */
export interface DeadLetters {
  /**
   * Lists dead letters in the order of their ids; ids that txbox makes are in the order of time. A page holds at most
   * `limit` dead letters, plus any others that have the same id as the last one.
   *
   * @throws {InvalidOptionError} for an unknown or wrong option.
   * @throws {SchemaError | DatabaseUnavailableError} as do `redrive` and `discard`. After a `SchemaError`, nothing
   *   was changed.
   */
  list(
    selection?: Omit<DeadLetterSelection, 'ids'> & {
      /** 1 to 1000. @default 100 */
      readonly limit?: number | undefined
      /** Only dead letters whose id comes after this one: pass the last id of the previous page. */
      readonly after?: string | undefined
    },
  ): Promise<readonly DeadLetter[]>
  /**
   * Puts dead letters back: with the same ids and no attempts counted, due at once, and before all messages of their
   * keys that were parked later. Each dead letter is put back once, even if several callers redrive it concurrently.
   * The table of redrives records the operator and the time.
   *
   * @returns the messages that this call put back.
   * @throws {InvalidOptionError} without a selection: `{ topic }`, `{ type }`, `{ key }`, `{ consumer }`, `{ error }` or `{ ids }`.
   */
  redrive(selection: DeadLetterSelection): Promise<readonly DeadLetter[]>
  /**
   * Deletes dead letters.
   *
   * @returns the messages that this call deleted.
   * @throws {InvalidOptionError} without a selection.
   */
  discard(selection: DeadLetterSelection): Promise<readonly DeadLetter[]>
}

/**
 * Returns the dead letters of the outbox and of the local consumers; with `queue`, those of a stored queue.
 *
 * @param by the operator, for the record of redrives.
 */
export function deadLettersOf(
  ports: ConnectedPorts,
  { by = whoAmI(), queue }: { readonly by?: string | undefined; readonly queue?: string | undefined },
): DeadLetters {
  const store = deadLetterStoreOf(ports, queue)
  // The messages of a queue have no consumer by name.
  const names = queue === undefined ? NAMES : NAMES.filter((name) => name !== 'consumer')

  let checked = false
  /** Checks, once for each object, that the tables have this revision, before anything is written. */
  async function ready(): Promise<void> {
    if (!checked) await ports.checkSchema()
    checked = true
  }

  /**
   * Works page by page, so that each statement is short. Never goes back, so that messages that die again meanwhile are
   * not processed twice.
   */
  async function inPages(
    filter: DeadLetterFilter,
    touch: (filter: DeadLetterFilter) => Promise<DeadLetterPage>,
  ): Promise<readonly DeadLetter[]> {
    await ready()
    const touched: DeadLetter[] = []
    for (let { after } = filter; ;) {
      const { messages, next } = await touch({ ...filter, after })
      for (const letter of messages) touched.push(letter)
      if (next === undefined) return touched
      after = next
    }
  }

  return {
    async list(selection = {}) {
      const where = 'list'
      const checkList = new OptionChecker(where, selection).known(
        ...names.filter((name) => name !== 'ids'),
        'limit',
        'after',
      )
      const limit = checkList.integer('limit', { min: 1, max: PAGE, default: 100 })
      const id = optionalText(checkList, 'after', selection.after, LIMITS.messageIdCharacters)
      const filter = { ...filterOf(where, selection), after: id === undefined ? undefined : { id } }
      await ready()
      const { messages, next } = await store.list(filter, limit)
      if (next === undefined) return messages
      // The next page begins after an id, so this page must contain all dead letters of its last id.
      const sameId = { ...filter, ids: [next.id], after: next }
      return [...messages, ...(await inPages(sameId, (page) => store.list(page, PAGE)))]
    },
    redrive: async (selection) =>
      inPages(selected('redrive', selection, names), (filter) => store.redrive(filter, PAGE, by)),
    discard: async (selection) =>
      inPages(selected('discard', selection, names), (filter) => store.discard(filter, PAGE)),
  }
}

/** Returns the dead letters of a stored queue, or those of the outbox and of the local consumers. */
export function deadLetterStoreOf(ports: ConnectedPorts, queue: string | undefined): DeadLetterStore {
  const of = { statementTimeoutMs: STATEMENT_TIMEOUT_MS }
  if (queue !== undefined) return ports.deadLetters({ ...of, queue })
  return new JoinedDeadLetterStore(ports.deadLetters(of), ports.deadLetters({ ...of, local: true }))
}

/** Refuses an empty selection, which would select all dead letters by accident. */
function selected(where: string, selection: DeadLetterSelection, names: readonly Name[]): DeadLetterFilter {
  new OptionChecker(where, selection).known(...names)
  if (names.every((name) => selection[name] === undefined)) {
    const all = names.map((name) => `'${name}'`)
    throw new InvalidOptionError(
      `${where}: no dead letters are selected. Pass ${all.slice(0, -1).join(', ')} or ${all.at(-1)}.`,
    )
  }
  return filterOf(where, selection)
}

function filterOf(where: string, selection: DeadLetterSelection): DeadLetterFilter {
  const check = new OptionChecker(where, selection)
  const { ids } = selection
  if (
    ids !== undefined &&
    (!Array.isArray(ids) || ids.length > LIMITS.batchMessages || !Array.from(ids).every(isStorable))
  ) {
    throw check.wrong(
      'ids',
      `a list of at most ${LIMITS.batchMessages} ids, without NUL characters and lone surrogates`,
    )
  }
  return {
    ids,
    topic: optionalText(check, 'topic', selection.topic, LIMITS.topicCharacters),
    type: optionalText(check, 'type', selection.type, LIMITS.typeCharacters),
    key: optionalText(check, 'key', selection.key, LIMITS.orderingKeyCharacters),
    consumer: optionalText(check, 'consumer', selection.consumer, LIMITS.consumerCharacters),
    error: optionalText(check, 'error', selection.error, ERROR_CHARACTERS),
    after: undefined,
  }
}

function isStorable(id: unknown): boolean {
  return typeof id === 'string' && !id.includes('\0') && id.isWellFormed()
}

function optionalText(
  check: OptionChecker,
  name: string,
  value: string | undefined,
  max: number,
): string | undefined {
  return value === undefined ? undefined : check.text(name, { max })
}

/** The user and the host, for records of what an operator has done. */
export function whoAmI(): string {
  let user = 'unknown'
  try {
    user = userInfo().username
  } catch {
    // A process need not have an entry in the list of users.
  }
  return `${user}@${hostname()}`.slice(0, 200)
}
