import { LeaseLostError } from '@txbox/core'
import type { BacklogMessage, ReadLimits, RelayStore, OutboxSettlement } from '@txbox/core/ports'
import type { HeldShard } from '@txbox/core/internal'
import type { BatchKind } from './in-flight-batch.ts'

/** The numbers in flight in each table, as the lowest and the highest. */
type Noted = Readonly<Partial<Record<'outbox' | 'parked', readonly [from: string, to: string]>>>

/**
 * The number of deaths in a row after which messages become suspects. The first death may have any cause and costs only
 * the lease.
 */
const SUSPICIOUS_CRASHES = 2

/** The maximum length of a read that looks for suspects, in batches: it holds all of these messages in memory. */
const MAX_SEARCH_BATCHES = 16

/**
 * Finds a message that crashes relays. After a first crash, the next owner of a shard publishes as before, but records
 * in the lease which messages it has in flight, until every message that the dead owner may have had in flight is
 * settled. If the next owner dies as well, the recorded messages become suspects, which the third owner tries one at a
 * time.
 *
 * Without a crash, nothing is recorded.
 */
export class CrashWatch {
  readonly #held: HeldShard
  readonly #store: RelayStore
  readonly #limits: ReadLimits
  #isActive: boolean
  #isBegun = false
  /** The last number of the first read: the dead owner cannot have had a later message in flight. */
  #horizon: bigint | undefined
  #isOutboxThrough = false
  #isParkedThrough = false
  #hasSuspects: boolean
  /** The batches in flight. */
  readonly #noted = new Map<
    readonly BacklogMessage[],
    { readonly kind: BatchKind; readonly from: bigint; readonly to: bigint }
  >()

  constructor(held: HeldShard, store: RelayStore, limits: ReadLimits) {
    this.#held = held
    this.#store = store
    this.#limits = limits
    this.#isActive = held.lease.crashes > 0
    this.#hasSuspects = held.lease.crashes >= SUSPICIOUS_CRASHES
  }

  /** Whether suspects may be left. */
  get hasSuspects(): boolean {
    return this.#hasSuspects
  }

  /** Must be called when a suspect was looked for, or may have become due. */
  sawSuspect(isThere: boolean): void {
    this.#hasSuspects = isThere
  }

  /** Marks the suspects, once. Must be called before the first message of the shard is published. */
  async begin(): Promise<void> {
    if (!this.#isActive || this.#isBegun) return
    const { lease, crashes } = this.#held
    const noted = crashes >= SUSPICIOUS_CRASHES ? parse(lease.inFlight) : {}
    if (noted.parked !== undefined) {
      const [from, to] = noted.parked
      await this.#store.suspectParked(lease, this.#held.shard, { from: BigInt(from), to: BigInt(to) })
    }
    if (noted.outbox !== undefined)
      await this.#suspectOutbox(BigInt(noted.outbox[0]), BigInt(noted.outbox[1]))
    if (lease.inFlight !== undefined) await this.#write(undefined)
    this.#isBegun = true
  }

  /**
   * Notes in the lease the messages that are about to be published. For a suspect, its own row keeps the count instead.
   */
  async note(kind: BatchKind, batch: readonly BacklogMessage[]): Promise<void> {
    if (!this.#isActive || kind === 'suspect') return
    const numbers = batch.map(({ seq }) => seq)
    this.#noted.set(batch, { kind, from: least(numbers), to: greatest(numbers) })
    try {
      await this.#write(this.#ranges())
    } catch (error) {
      this.#noted.delete(batch)
      throw error
    }
  }

  /**
   * Omits messages that are no longer in flight from the next note. A note with too many messages is harmless: it only
   * makes innocent messages suspects.
   */
  forget(batch: readonly BacklogMessage[]): void {
    this.#noted.delete(batch)
  }

  /** Must be called when the outbox was read: the messages may show that the dead owner's batch is settled. */
  sawOutbox(batch: readonly BacklogMessage[]): void {
    if (!this.#isActive || this.#isOutboxThrough) return
    const [first] = batch
    if (first === undefined || (this.#horizon !== undefined && first.seq > this.#horizon)) {
      this.#isOutboxThrough = true
    }
    this.#horizon ??= batch.at(-1)?.seq
  }

  /** Must be called when the parked messages that were due have been tried, or there were none. */
  triedParked(): void {
    this.#isParkedThrough = true
  }

  /** Ends the watch when all messages that the dead owner may have had in flight are settled. */
  async end(): Promise<void> {
    if (!this.#isActive || this.#hasSuspects || !this.#isOutboxThrough || !this.#isParkedThrough) return
    await this.#store.survived(this.#held.lease)
    this.#isActive = false
    this.#noted.clear()
  }

  /**
   * Parks the recorded messages as suspects. Messages that committed late may come before them, so the reads get longer
   * and longer.
   */
  async #suspectOutbox(from: bigint, to: bigint): Promise<void> {
    let { messages, bytes } = this.#limits
    let lastRead = 0
    for (;;) {
      const batch = await this.#store.read(this.#held.shard, { messages, bytes })
      const suspects = new Set(batch.filter(({ seq }) => seq >= from && seq <= to))
      if (suspects.size > 0) {
        await this.#store.settle(this.#held.lease, this.#held.shard, suspectSettlement(batch, suspects))
        lastRead = 0
        continue
      }
      const last = batch.at(-1)
      const isLongest = messages >= this.#limits.messages * MAX_SEARCH_BATCHES
      if (last === undefined || last.seq > to || batch.length === lastRead || isLongest) return
      lastRead = batch.length
      messages *= 2
      bytes *= 2
    }
  }

  #ranges(): Noted {
    const rangeOf = (kinds: readonly BatchKind[]): readonly [string, string] | undefined => {
      const ranges = [...this.#noted.values()].filter(({ kind }) => kinds.includes(kind))
      if (ranges.length === 0) return undefined
      return [String(least(ranges.map(({ from }) => from))), String(greatest(ranges.map(({ to }) => to)))]
    }
    const outbox = rangeOf(['outbox'])
    const parked = rangeOf(['parked'])
    return { ...(outbox && { outbox }), ...(parked && { parked }) }
  }

  async #write(noted: Noted | undefined): Promise<void> {
    const { lease } = this.#held
    if (await this.#store.note(lease, noted && JSON.stringify(noted))) return
    throw new LeaseLostError(
      `The lease '${lease.name}' of term ${lease.term} is no longer held by '${lease.owner}'. No message of this batch was published.`,
    )
  }
}

/**
 * Suspects of the outbox, and the messages before them in their keys: parked messages of a key keep the order in which
 * they were parked, so that a message that stayed in the outbox would come after the suspect. The first message of each
 * key is due, and the others wait behind it. A `blocked` message waits behind a parked message.
 *
 * @param batch the first messages of the outbox, in its order.
 */
function suspectSettlement(
  batch: readonly BacklogMessage[],
  suspects: ReadonlySet<BacklogMessage>,
): OutboxSettlement {
  const lastOf = new Map([...suspects].map(({ key, seq }) => [key, seq]))
  const isBefore = ({ key, seq }: BacklogMessage): boolean =>
    key !== undefined && seq < (lastOf.get(key) ?? seq)
  const seen = new Set<string>()
  const heads: BacklogMessage[] = []
  const behind: BacklogMessage[] = []
  for (const message of batch) {
    if (!suspects.has(message) && !isBefore(message)) continue
    const { key, blocked } = message
    if (blocked || (key !== undefined && seen.has(key))) behind.push(message)
    else heads.push(message)
    if (key !== undefined) seen.add(key)
  }
  return {
    accepted: [],
    refused: heads.map((row) => ({
      row,
      attempts: 0,
      error: '',
      errors: undefined,
      retryInMs: 0,
      suspect: suspects.has(row),
    })),
    behind: behind.map((row) => ({ row, suspect: suspects.has(row) })),
  }
}

/** Parses a note. An unreadable note, which was written by hand, counts as a note without suspects. */
function parse(text: string | undefined): Noted {
  try {
    const noted = JSON.parse(text ?? '{}') as Noted
    for (const range of [noted.outbox, noted.parked]) range?.map(BigInt)
    return noted
  } catch {
    return {}
  }
}

function least(numbers: readonly bigint[]): bigint {
  return numbers.reduce((a, b) => (b < a ? b : a))
}

function greatest(numbers: readonly bigint[]): bigint {
  return numbers.reduce((a, b) => (b > a ? b : a))
}
