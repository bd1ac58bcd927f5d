import { isTxboxError } from '@txbox/core'
import type { LocalRefusal, LocalRow, LocalSettlement } from '@txbox/core/ports'
import { pause } from '@txbox/core/internal'
import { rowId } from './key-lane.ts'

/** The maximum number of rows of one settlement. */
const MAX_ROWS = 500
/** The pauses before a settlement is repeated: after an error, or while another transaction has locked a row. */
const PAUSES_MS = { shortest: 50, longest: 5000, longestLocked: 1000 } as const

/** The settlement of one delivery, or of the rows that must wait behind it. */
export type Settling =
  | { readonly accepted: LocalRow }
  | { readonly refused: LocalRefusal }
  | { readonly behind: readonly LocalRow[] }

interface Waiting {
  readonly settling: Settling
  readonly rows: readonly LocalRow[]
  readonly resolve: (left: ReadonlySet<string>) => void
}

interface SettlementTools {
  /** Runs one settlement. @returns the rows that were left as they are, because another transaction has locked them. */
  readonly settle: (settlement: LocalSettlement) => Promise<readonly LocalRow[]>
  /** Called with errors after which the settlement is repeated. */
  readonly failed: (error: unknown) => void
  /** Called when the database reports that the lease is lost. */
  readonly taken: () => void
  /** Called when another transaction has locked rows. */
  readonly sawLocked: () => void
  /** Aborted when the lease is lost, or the source is closed: nothing is settled from then on. */
  readonly over: AbortSignal
}

/**
 * Settles the rows of one shard. Gathers settlements while a statement is in flight, so that the next statement is for all of them.
 *
 * A settlement that fails is repeated until the lease is lost, and so is one without an answer: it names rows by number and stamp and
 * sets counts instead of adding to them, so that a second application changes nothing. Handlers whose messages are settled here have
 * succeeded or failed already; giving up the lease instead would repeat them.
 */
export class GatheredSettlements {
  readonly #tools: SettlementTools
  #waiting: Waiting[] = []
  #isRunning = false
  #failures = 0
  /** How many settlements follow one at a time: after an error, a row that cannot be settled must not keep the others. */
  #alone = 0

  constructor(tools: SettlementTools) {
    this.#tools = tools
    tools.over.addEventListener('abort', () => this.#giveUp(), { once: true })
  }

  /**
   * Resolves when the settlement is done, or nothing is settled any more. Never rejects.
   *
   * @returns the names of the rows behind others that were left as they are, because another transaction has locked them. Other rows
   *   that are locked are settled as soon as they are not.
   */
  add(settling: Settling): Promise<ReadonlySet<string>> {
    if (this.#tools.over.aborted) return Promise.resolve(new Set())
    const { promise, resolve } = Promise.withResolvers<ReadonlySet<string>>()
    const rows = 'behind' in settling ? settling.behind : [rowOf(settling)]
    this.#waiting.push({ settling, rows, resolve })
    if (!this.#isRunning) {
      this.#isRunning = true
      queueMicrotask(() => void this.#run())
    }
    return promise
  }

  async #run(): Promise<void> {
    const { over } = this.#tools
    while (this.#waiting.length > 0 && !over.aborted) {
      const together = this.#next()
      try {
        const left = new Set((await this.#tools.settle(settlementOf(together))).map(rowId))
        this.#settled(together, left)
      } catch (error) {
        await this.#failed(together, error)
      }
    }
    this.#isRunning = false
    if (over.aborted) this.#giveUp()
  }

  #next(): readonly Waiting[] {
    let [count, rows] = [0, 0]
    const most = this.#alone > 0 ? 1 : MAX_ROWS
    this.#alone = Math.max(0, this.#alone - 1)
    for (const { rows: more } of this.#waiting) {
      if (count > 0 && rows + more.length > most) break
      count += 1
      rows += more.length
    }
    return this.#waiting.splice(0, count)
  }

  #settled(together: readonly Waiting[], left: ReadonlySet<string>): void {
    this.#failures = 0
    if (left.size > 0) this.#tools.sawLocked()
    for (const one of together) {
      if ('behind' in one.settling || !left.has(rowId(one.rows[0]!))) one.resolve(left)
      else void this.#again(one)
    }
  }

  /** Settles a row later that another transaction has locked. */
  async #again(one: Waiting): Promise<void> {
    await pause(PAUSES_MS.longestLocked / 4, this.#tools.over)
    one.resolve(await this.add(one.settling))
  }

  async #failed(together: readonly Waiting[], error: unknown): Promise<void> {
    const { over, taken, failed } = this.#tools
    this.#waiting.unshift(...together)
    if (over.aborted) return
    if (isTxboxError(error) && error.code === 'TXBOX_LEASE_LOST') {
      taken()
      // Normally the loss has ended everything by now. Otherwise the lease is in doubt, and asked for again.
      return pause(PAUSES_MS.shortest, over)
    }
    failed(error)
    const isAway = isTxboxError(error) && error.code === 'TXBOX_DATABASE_UNAVAILABLE'
    if (!isAway && together.length > 1) this.#alone = together.length
    // Rows behind others keep their order.
    else if (!isAway && !('behind' in together[0]!.settling)) this.#waiting.push(this.#waiting.shift()!)
    const pauseMs = Math.min(PAUSES_MS.longest, PAUSES_MS.shortest * 2 ** Math.min(this.#failures++, 10))
    await pause(pauseMs, over)
  }

  #giveUp(): void {
    for (const { resolve } of this.#waiting.splice(0)) resolve(new Set())
  }
}

function rowOf(settling: Exclude<Settling, { behind: unknown }>): LocalRow {
  return 'accepted' in settling ? settling.accepted : settling.refused.row
}

function settlementOf(together: readonly Waiting[]): LocalSettlement {
  const settlings = together.map(({ settling }) => settling)
  return {
    accepted: settlings.flatMap((settling) => ('accepted' in settling ? [settling.accepted] : [])),
    refused: settlings.flatMap((settling) => ('refused' in settling ? [settling.refused] : [])),
    behind: settlings.flatMap((settling) => ('behind' in settling ? settling.behind : [])),
  }
}
