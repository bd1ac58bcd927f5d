/*
 * MySQL and MariaDB settle in short transactions of several statements: rows are locked by a query with SKIP LOCKED, and then
 * changed. PostgreSQL settles in one statement.
 */
import type { BacklogRow, Lease, LocalRow, LocalSettlement, LocalShard } from '@txbox/core/ports'
import { refused as refusalOf } from '@txbox/sql/stores'
import { columns, placeOf } from '../connection/columns.ts'
import { bytesOf, fill, type Value } from '../connection/literals.ts'
import { runTogether, type MysqlStatementRoot } from '../connection/run-alone.ts'
import type { Run } from '../connection/short-transaction.ts'
import { MAX_BRANCHES } from '../relay/parked-reads.ts'
import { assertNone, type RelaySettling } from '../relay/relay-settling.ts'
import { rowOf } from '../relay/relay-verdicts.ts'
import { LockedRows, placeValues, rowIn, type LocalSql } from './locked-rows.ts'
import { parkRows, waitingVerdict, type LocalVerdict } from './park-rows.ts'

/** What settlements of local consumers share. */
export interface SettlingTools {
  readonly source: MysqlStatementRoot
  /** Locks the lease last. */
  readonly settling: RelaySettling
  readonly sql: () => Promise<LocalSql>
}

const HEAL_KEYS = 10_000
const HANDLED_ROWS = 1000
/** The number of rows of a key in each table that `isKeyUnlocked` looks at. */
const PROBED_ROWS = 1000
const GREATEST_NUMBER = 2n ** 64n - 1n

/** Settlements of local consumers outside of the transactions of their handlers. `LocalStore` documents the methods. */
export class LocalSettlements {
  readonly #source: MysqlStatementRoot
  readonly #settling: RelaySettling
  readonly #sql: SettlingTools['sql']
  /** The last examined key of each shard that has more keys. */
  readonly #healed = new Map<string, Buffer>()

  constructor({ source, settling, sql }: SettlingTools) {
    this.#source = source
    this.#settling = settling
    this.#sql = sql
  }

  async settle(
    lease: Lease,
    at: LocalShard,
    { accepted, refused, behind }: LocalSettlement,
  ): Promise<readonly LocalRow[]> {
    const verdicts: LocalVerdict[] = [
      ...refused.map((refusal) => ({
        ...refusalOf(refusal),
        row: refusal.row,
        unhandled: refusal.unhandled,
      })),
      ...behind.map((row) => waitingVerdict(row)),
    ]
    const { kept, result } = await this.#settle(lease, at, accepted, verdicts)
    assertNone(kept, accepted.length + verdicts.length, 'in the tables of local consumers')
    return result
  }

  async #settle(
    lease: Lease,
    at: LocalShard,
    accepted: readonly LocalRow[],
    unsorted: readonly LocalVerdict[],
  ): Promise<{ readonly kept: number; readonly result: readonly LocalRow[] }> {
    // In the order of the numbers, so that a message is parked before the messages behind it, even if the list is split.
    const verdicts = unsorted.toSorted((a, b) => (a.row.seq < b.row.seq ? -1 : 1))
    const sql = await this.#sql()
    return this.#settling.settleTexts(lease, verdicts, async (run, texts) => {
      const rows = [...accepted, ...verdicts.map(({ row }) => row)]
      const locked = await LockedRows.of({ run, at, settling: this.#settling, sql }, rows)
      const moved = verdicts.flatMap(({ row }, n) =>
        row.in === 'waiting' && locked.mayMove(row) ? [{ row, text: texts[n]! }] : [],
      )
      const keptTexts = verdicts.flatMap(({ row }, n) =>
        row.in === 'parked' && locked.has(row) ? [texts[n]!] : [],
      )
      await parkRows(run, at, moved, { settling: this.#settling, sql })
      const gone = accepted.filter((row) => locked.has(row))
      let removed = 0
      for (const kind of ['waiting', 'parked'] as const) {
        const ofKind = gone.filter((row) => row.in === kind).map(rowOf)
        const remove = kind === 'waiting' ? sql.remove : sql.parked.removeListed
        removed += await this.#settling.inPieces(run, remove, ofKind, placeValues(at))
      }
      await this.#settling.inPieces(run, sql.parked.keep, keptTexts)
      const left = new Set([
        ...locked.leftAlone,
        ...verdicts.flatMap(({ row }) => (row.in === 'waiting' && locked.isHeldBack(row) ? [row] : [])),
      ])
      return { kept: gone.length - removed, result: rows.filter((row) => left.has(row)) }
    })
  }

  async release(lease: Lease, at: LocalShard, keys: readonly string[]): Promise<void> {
    if (keys.length === 0) return
    const { parked } = await this.#sql()
    await this.#settling.settle(lease, async (run) => {
      for (let from = 0; from < keys.length; from += MAX_BRANCHES) {
        const branches = keys
          .slice(from, from + MAX_BRANCHES)
          .map((key) => fill(parked.next, [...placeValues(at), Buffer.from(key)]))
        const { rows } = await run(parked.nextOfAll(branches), [])
        await this.#releasePlaces(run, rows.filter((row) => columns.flag(row, 'waits')).map(placeOf))
      }
    })
  }

  async healKeys(lease: Lease, at: LocalShard): Promise<number> {
    const shard = `${at.consumer}/${at.shard}`
    const { parked } = await this.#sql()
    return this.#settling.settle(lease, async (run) => {
      const after = this.#healed.get(shard) ?? Buffer.alloc(0)
      const { rows } = await run(parked.heads, [...placeValues(at), after, HEAL_KEYS])
      if (rows.length < HEAL_KEYS) this.#healed.delete(shard)
      else this.#healed.set(shard, bytesOf(rows.at(-1)!['order_key']))
      return this.#releasePlaces(run, rows.filter((row) => columns.flag(row, 'waits')).map(placeOf))
    })
  }

  /** Puts due messages back behind their predecessors. @returns the places that were left as they are */
  async follow(lease: Lease, rows: readonly BacklogRow[]): Promise<readonly bigint[]> {
    const { parked } = await this.#sql()
    return this.#settling.settle(lease, async (run) => {
      const locked = new Set(
        await this.#lockPlaces(
          run,
          rows.map(({ seq }) => String(seq)),
        ),
      )
      const isLocked = ({ seq }: BacklogRow): boolean => locked.has(String(seq))
      await this.#settling.inPieces(run, parked.follow, rows.filter(isLocked).map(rowOf))
      return rows.filter((row) => !isLocked(row)).map(({ seq }) => seq)
    })
  }

  async isKeyUnlocked(at: LocalShard, key: string): Promise<boolean> {
    const sql = await this.#sql()
    const bytes = Buffer.from(key)
    const place = placeValues(at)
    return runTogether(this.#source, 'looking for locks on a key', async (run) => {
      const waiting = await run(sql.ofKeys, [...place, GREATEST_NUMBER, [bytes], PROBED_ROWS])
      const parked = await run(sql.parked.ofKey, [...place, bytes, PROBED_ROWS])
      // Only the rows of the key are locked: a handler would skip a row that this transaction has locked.
      const rows = [
        ...waiting.rows.map((row) => rowIn(row, 'waiting')),
        ...parked.rows.map((row) => rowIn(row, 'parked')),
      ]
      const context = { run, at, settling: this.#settling, sql }
      return (await LockedRows.of(context, rows)).leftAlone.length === 0
    })
  }

  async handled(consumer: string, types: readonly string[]): Promise<void> {
    if (types.length === 0) return
    const { parked } = await this.#sql()
    let after = 0n
    for (let isFull = true; isFull;) {
      const values: readonly Value[] = [
        Buffer.from(consumer),
        after,
        types.map((type) => Buffer.from(type)),
        HANDLED_ROWS,
      ]
      const doing = 'looking for messages that had no handler'
      const places = await runTogether(this.#source, doing, async (run) => {
        const { rows } = await run(parked.unhandled, values)
        const found = rows.map(placeOf)
        await this.#settling.inPieces(run, parked.makeDue, await this.#lockPlaces(run, found))
        return found
      })
      isFull = places.length === HANDLED_ROWS
      if (isFull) after = BigInt(places.at(-1)!)
    }
  }

  async #releasePlaces(run: Run, places: readonly string[]): Promise<number> {
    const { parked } = await this.#sql()
    return this.#settling.inPieces(run, parked.release, await this.#lockPlaces(run, places))
  }

  /** Returns the places that could be locked. */
  async #lockPlaces(run: Run, places: readonly string[]): Promise<readonly string[]> {
    const { parked } = await this.#sql()
    return (await this.#settling.rowsInPieces(run, parked.lockPlaces, places)).map(placeOf)
  }
}
