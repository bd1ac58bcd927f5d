import { errorCodesIn } from '../connection/client-errors.ts'
import type { OwnedPartition } from './owned-partition.ts'

/** Offsets for which no caller waits are gathered for this long, because each commit is a record in a topic of Kafka. */
const GATHER_MS = 100

/** ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID: the member must join first. */
const MUST_JOIN: ReadonlySet<number> = new Set([22, 25, 27, 82])
/** The coordinator of the group is loading, away, or another broker; the request timed out. */
const PASSING: ReadonlySet<number> = new Set([3, 5, 6, 7, 14, 15, 16])

/** The epoch of a leader that is not known. */
const NO_EPOCH = -1

/** An offset for each partition. */
export type Offsets = readonly {
  readonly topic: string
  readonly partition: number
  readonly offset: bigint
  readonly leaderEpoch: number
}[]

interface CommitsHow {
  readonly owned: () => readonly OwnedPartition[]
  readonly commit: (offsets: Offsets) => Promise<void>
  /** Called with an error after which nothing can be committed any more. */
  readonly failed: (error: unknown) => void
}

interface Waiter {
  readonly partition: OwnedPartition
  readonly offset: bigint
  readonly resolve: () => void
}

/**
 * Commits how far the records of each partition are settled without a gap, one request at a time: of two requests in flight, the older
 * one could win. Partitions that belong to another member are never committed: Kafka itself would allow it.
 */
export class Commits {
  readonly #how: CommitsHow
  readonly #waiters = new Set<Waiter>()
  #inFlight: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #isImmediate = false
  /** Whether this member must join its group before it commits again. */
  #mustJoin = false
  #isEnded = false

  constructor(how: CommitsHow) {
    this.#how = how
  }

  /** Commits soon. */
  request(): void {
    if (this.#isEnded) return
    if (this.#waiters.size > 0) this.#sendAfterThisTurn()
    else this.#timer ??= setTimeout(() => void this.send(), GATHER_MS)
  }

  /** Resolves when Kafka has an offset behind this record, and when the partition is lost. */
  async until(partition: OwnedPartition, offset: bigint): Promise<void> {
    if (this.#isEnded || hasEnded(partition, offset)) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiters.add({ partition, offset, resolve })
    this.request()
    await promise
  }

  /** Commits at once what can be committed, unless a request is in flight. Resolves when the request is answered. */
  send(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#inFlight !== undefined) return this.#inFlight
    const dirty = this.#dirty
    if (dirty.length === 0) return Promise.resolve()
    this.#inFlight = this.#commit(dirty.map((partition) => ({ partition, offset: partition.committable! })))
    return this.#inFlight
  }

  /** Commits all that can be committed. */
  async flush(): Promise<void> {
    await this.#inFlight
    await this.send()
  }

  /** Must be called when the member has joined its group. */
  joined(): void {
    this.#mustJoin = false
    this.settleWaiters()
    this.request()
  }

  /** Ends the waits for records that are committed, or whose partition is lost. Must be called after partitions were lost. */
  settleWaiters(): void {
    for (const waiter of this.#waiters) {
      if (!hasEnded(waiter.partition, waiter.offset)) continue
      this.#waiters.delete(waiter)
      waiter.resolve()
    }
  }

  /** Commits nothing from now on. */
  end(): void {
    this.#isEnded = true
    clearTimeout(this.#timer)
    for (const { resolve } of this.#waiters) resolve()
    this.#waiters.clear()
  }

  get #dirty(): readonly OwnedPartition[] {
    if (this.#isEnded || this.#mustJoin) return []
    return this.#how.owned().filter(({ committable }) => committable !== undefined)
  }

  /** Offsets that are accepted in one turn of the event loop share a request. */
  #sendAfterThisTurn(): void {
    if (this.#isImmediate) return
    this.#isImmediate = true
    setImmediate(() => {
      this.#isImmediate = false
      void this.send()
    })
  }

  /** Never rejects. */
  async #commit(
    all: readonly { readonly partition: OwnedPartition; readonly offset: bigint }[],
  ): Promise<void> {
    let mayRepeatAtOnce = true
    try {
      await this.#how.commit(
        all.map(({ partition: { topic, partition }, offset }) => ({
          ...{ topic, partition, offset },
          leaderEpoch: NO_EPOCH,
        })),
      )
      for (const { partition, offset } of all) partition.committed = offset
      this.settleWaiters()
    } catch (error) {
      const codes = errorCodesIn(error)
      mayRepeatAtOnce = false
      if (codes.some((code) => MUST_JOIN.has(code))) this.#mustJoin = true
      else if (!codes.some((code) => PASSING.has(code))) this.#how.failed(error)
    } finally {
      this.#inFlight = undefined
    }
    if (this.#dirty.length === 0) return
    if (mayRepeatAtOnce) this.request()
    else this.#timer ??= setTimeout(() => void this.send(), GATHER_MS)
  }
}

/** Whether a record is committed, or belongs to another member. */
function hasEnded(partition: OwnedPartition, offset: bigint): boolean {
  return partition.isLost || partition.isFinal(offset)
}
