/* Only MySQL and MariaDB lock rows by a query before they change them. */
import type { LocalRow, LocalShard } from '@txbox/core/ports'
import { toStamp, type Row } from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import { bytesOf, type Value } from '../connection/literals.ts'
import type { Run } from '../connection/short-transaction.ts'
import type { RelaySettling } from '../relay/relay-settling.ts'
import { rowOf } from '../relay/relay-verdicts.ts'
import type { localParkedStatements } from './local-parked-statements.ts'
import type { localStatements } from './local-statements.ts'

/** The most rows before suspects that move with them: rows that were committed late. */
const MOST_BEFORE = 10_000

/** The values by which statements find the rows of a shard. */
export function placeValues({ consumer, shard }: LocalShard): readonly Value[] {
  return [Buffer.from(consumer), shard]
}

/** The statements on waiting messages, and those on parked ones. */
export type LocalSql = ReturnType<typeof localStatements> & {
  readonly parked: ReturnType<typeof localParkedStatements>
}

interface Context {
  readonly run: Run
  readonly at: LocalShard
  readonly settling: RelaySettling
  readonly sql: LocalSql
}

interface RowsBefore {
  readonly rows: readonly LocalRow[]
  /** Keys of which another transaction has locked a row. */
  readonly stuckKeys: ReadonlySet<string | undefined>
  keyOf(row: LocalRow): string | undefined
}

/** The rows that a settlement could lock without waiting, and those that it must leave as they are. */
export class LockedRows {
  readonly #context: Context
  /** The keys of the rows that are locked now. */
  readonly #keys = new Map<LocalRow, string | undefined>()
  readonly #later = new Set<LocalRow>()
  readonly #leftAlone: LocalRow[] = []
  /** The lowest number of each key that another transaction has locked among the waiting rows. */
  readonly #stuck = new Map<string, bigint>()

  private constructor(context: Context) {
    this.#context = context
  }

  static async of(context: Context, rows: readonly LocalRow[]): Promise<LockedRows> {
    const locked = new LockedRows(context)
    for (const kind of ['waiting', 'parked'] as const) {
      await locked.#lock(
        kind,
        rows.filter((row) => row.in === kind),
      )
    }
    return locked
  }

  /** Rows that exist, and that another transaction has locked. */
  get leftAlone(): readonly LocalRow[] {
    return this.#leftAlone
  }

  has(row: LocalRow): boolean {
    return this.#keys.has(row)
  }

  /** Whether a parked message is not due yet. */
  isLater(row: LocalRow): boolean {
    return this.#later.has(row)
  }

  /** Whether a waiting row is locked and no row before it in its key is left where it is: parked rows come before waiting ones. */
  mayMove(row: LocalRow): boolean {
    return this.has(row) && !this.isHeldBack(row)
  }

  isHeldBack(row: LocalRow): boolean {
    if (row.in === 'parked') return false
    const key = this.#keys.get(row)
    return key !== undefined && row.seq > (this.#stuck.get(key) ?? row.seq)
  }

  /** Locks the waiting rows that come before suspects in their keys. */
  async before(suspects: readonly LocalRow[]): Promise<RowsBefore> {
    const { run, at, sql } = this.#context
    const keys = new Map(this.#keys)
    const last = new Map<string, bigint>()
    for (const row of suspects) {
      const key = keys.get(row)
      if (key !== undefined && row.seq > (last.get(key) ?? 0n)) last.set(key, row.seq)
    }
    const stuckKeys = new Set<string | undefined>()
    const result = { rows: [] as LocalRow[], stuckKeys, keyOf: (row: LocalRow) => keys.get(row) }
    if (last.size === 0) return result
    const upTo = [...last.values()].reduce((a, b) => (b > a ? b : a))
    const wanted = [...last.keys()].map((key) => Buffer.from(key))
    const { rows } = await run(sql.ofKeys, [...placeValues(at), upTo, wanted, MOST_BEFORE])
    const given = new Set(suspects.map(({ seq }) => seq))
    const candidates = rows
      .map((row) => ({ row: rowIn(row, 'waiting'), key: keyIn(row)! }))
      .filter(({ row, key }) => row.seq < last.get(key)! && !given.has(row.seq))
    const before = new LockedRows(this.#context)
    await before.#lock(
      'waiting',
      candidates.map(({ row }) => row),
    )
    for (const { row, key } of candidates) {
      if (before.has(row)) {
        keys.set(row, key)
        result.rows.push(row)
      } else if (before.#leftAlone.includes(row)) stuckKeys.add(key)
    }
    return result
  }

  async #lock(kind: LocalRow['in'], rows: readonly LocalRow[]): Promise<void> {
    if (rows.length === 0) return
    const { run, at, settling, sql } = this.#context
    const { lockListed, findListed } = kind === 'waiting' ? sql : sql.parked
    const number = kind === 'waiting' ? 'seq' : 'place'
    const find = (text: string, wanted: readonly LocalRow[]): Promise<readonly Row[]> =>
      settling.rowsInPieces(run, text, wanted.map(rowOf), placeValues(at))
    const byNumber = new Map(rows.map((row) => [String(row.seq), row]))
    for (const found of await find(lockListed, rows)) {
      const row = byNumber.get(columns.text(found, number))!
      this.#keys.set(row, keyIn(found))
      if (columns.has(found, 'later')) this.#later.add(row)
    }
    const missing = rows.filter((row) => !this.#keys.has(row))
    if (missing.length === 0) return
    for (const found of await find(findListed, missing)) {
      const row = byNumber.get(columns.text(found, number))!
      this.#leftAlone.push(row)
      const key = keyIn(found)
      if (kind === 'parked' || key === undefined) continue
      const lowest = this.#stuck.get(key)
      if (lowest === undefined || row.seq < lowest) this.#stuck.set(key, row.seq)
    }
  }
}

function keyIn(row: Row): string | undefined {
  return columns.has(row, 'order_key') ? bytesOf(row['order_key']).toString() : undefined
}

/** Returns the row that a query has found. */
export function rowIn(row: Row, kind: LocalRow['in']): LocalRow {
  const seq = columns.bigint(row, kind === 'waiting' ? 'seq' : 'place')
  return { seq, stamp: toStamp(columns.number(row, 'stamp')), in: kind }
}
