import type { RemovalOptions, RemovalOutcome, SubscriptionRemovalStore } from '@txbox/core/ports'
import { pause } from '@txbox/core/internal'

const PAGE = 1000
const COUNT_LIMIT = 100_000
/** InnoDB refreshes its list of transactions only if nobody has read it for a tenth of a second. */
const PAUSE_MS = 150

/** The messages of a consumer, or those of one of its types. */
export interface RemovedMessages {
  readonly consumer: string
  readonly type: string | undefined
}

export interface RemovalPage {
  readonly removed: number
  /** Where the next page begins; `undefined` after the last page. */
  readonly next: readonly string[] | undefined
}

interface RemovalDatabase {
  count(
    of: RemovedMessages,
    limit: number,
  ): Promise<{ readonly subscribed: boolean; readonly waiting: number; readonly dead: number }>
  /** Ends the subscription and records it in one transaction. @returns the number of the record */
  end(of: RemovedMessages, by: string): Promise<string>
  /** The open transactions that may have read the subscriptions; `undefined` if the user may not see them. */
  readers(): Promise<readonly string[] | undefined>
  /** Deletes a page of messages that no other transaction has locked, and adds their number to the record. */
  discard(
    from: 'waiting' | 'parked',
    of: RemovedMessages,
    record: string,
    after: readonly string[] | undefined,
    limit: number,
  ): Promise<RemovalPage>
}

export class SqlRemovalStore implements SubscriptionRemovalStore {
  readonly #database: RemovalDatabase

  constructor(database: RemovalDatabase) {
    this.#database = database
  }

  async remove(consumer: string, { type, discard, by, waitMs }: RemovalOptions): Promise<RemovalOutcome> {
    const of = { consumer, type }
    const before = await this.#database.count(of, COUNT_LIMIT)
    const dead = discard ? before.dead : 0
    if (!before.subscribed && before.waiting + dead === 0) return { outcome: 'unknown' }
    if (!discard && before.waiting > 0) return { outcome: 'refused', waiting: bounded(before.waiting) }
    const record = await this.#database.end(of, by)
    const openPublishers = !(await this.#publishersEnd(waitMs))
    const discarded = discard ? await this.#discardAll(of, record, performance.now() + waitMs) : 0
    const after = await this.#database.count(of, COUNT_LIMIT)
    const left = bounded(after.waiting + (discard ? after.dead : 0))
    return { outcome: 'removed', discarded, left, openPublishers }
  }

  /** @returns whether all transactions have ended that may have read the subscription. */
  async #publishersEnd(waitMs: number): Promise<boolean> {
    const deadline = performance.now() + waitMs
    await pause(PAUSE_MS)
    const open = await this.#database.readers()
    // Nobody can say which transactions are open, so they get the whole time.
    if (open === undefined) {
      await pause(Math.max(0, deadline - performance.now()))
      return false
    }
    const ids = new Set(open)
    for (let now: readonly string[] | undefined = open; ; now = await this.#database.readers()) {
      if (now === undefined || !now.some((id) => ids.has(id))) return true
      if (performance.now() >= deadline) return false
      await pause(PAUSE_MS)
    }
  }

  /** Ends when no message is left, or when all that are left have been locked by handlers until the deadline. */
  async #discardAll(of: RemovedMessages, record: string, deadline: number): Promise<number> {
    let discarded = 0
    for (;;) {
      let removed = 0
      for (const from of ['waiting', 'parked'] as const) removed += await this.#pages(from, of, record)
      discarded += removed
      if (removed > 0) continue
      const { waiting, dead } = await this.#database.count(of, 1)
      if (waiting + dead === 0 || performance.now() >= deadline) return discarded
      await pause(PAUSE_MS)
    }
  }

  async #pages(from: 'waiting' | 'parked', of: RemovedMessages, record: string): Promise<number> {
    let removed = 0
    for (let after: readonly string[] | undefined; ;) {
      const page = await this.#database.discard(from, of, record, after, PAGE)
      removed += page.removed
      if (page.next === undefined) return removed
      after = page.next
    }
  }
}

function bounded(count: number): { readonly count: number; readonly atLeast: boolean } {
  return { count, atLeast: count >= COUNT_LIMIT }
}
