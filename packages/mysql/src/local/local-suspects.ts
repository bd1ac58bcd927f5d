/* MySQL and MariaDB need a branch for each key, and lock rows by a query before they move them. PostgreSQL needs one statement. */
import type { Lease, LocalRow, LocalShard } from '@txbox/core/ports'
import { columns } from '../connection/columns.ts'
import { fill } from '../connection/literals.ts'
import type { Run } from '../connection/short-transaction.ts'
import { MAX_BRANCHES } from '../relay/parked-reads.ts'
import { verdictOf, type Verdict } from '../relay/relay-verdicts.ts'
import type { SettlingTools } from './local-settlements.ts'
import { LockedRows, placeValues } from './locked-rows.ts'
import { parkRows, waitingVerdict } from './park-rows.ts'

/** Makes messages of local consumers suspects. `LocalStore` documents the method. */
export class LocalSuspects {
  readonly #settling: SettlingTools['settling']
  readonly #sql: SettlingTools['sql']

  constructor({ settling, sql }: SettlingTools) {
    this.#settling = settling
    this.#sql = sql
  }

  async suspect(lease: Lease, at: LocalShard, rows: readonly LocalRow[]): Promise<readonly LocalRow[]> {
    const sql = await this.#sql()
    return this.#settling.settle(lease, async (run) => {
      const context = { run, at, settling: this.#settling, sql }
      const locked = await LockedRows.of(context, rows)
      const parked = rows.filter((row) => row.in === 'parked' && locked.has(row) && !locked.isLater(row))
      await this.#settling.inPieces(
        run,
        sql.parked.suspect,
        parked.map(({ seq }) => String(seq)),
      )
      const suspects = rows.filter((row) => row.in === 'waiting' && locked.mayMove(row))
      const before = await locked.before(suspects)
      // A key of which one row is locked stays as it is: the suspect would otherwise be tried before that row.
      const stuck = before.stuckKeys
      const moved = [...suspects, ...before.rows].filter((row) => !stuck.has(before.keyOf(row)))
      await this.#parkSuspects(run, at, {
        moved,
        suspects: new Set(suspects),
        keyOf: (row) => before.keyOf(row),
      })
      const left = new Set([...locked.leftAlone, ...suspects.filter((row) => stuck.has(before.keyOf(row)))])
      return rows.filter((row) => left.has(row) || locked.isHeldBack(row))
    })
  }

  /** Parks suspects and the rows before them. The first row of a key is due, unless the key is blocked already. */
  async #parkSuspects(
    run: Run,
    at: LocalShard,
    {
      moved,
      suspects,
      keyOf,
    }: {
      readonly moved: readonly LocalRow[]
      readonly suspects: ReadonlySet<LocalRow>
      readonly keyOf: (row: LocalRow) => string | undefined
    },
  ): Promise<void> {
    if (moved.length === 0) return
    const sorted = moved.toSorted((a, b) => (a.seq < b.seq ? -1 : 1))
    const keys = [...new Set(sorted.map(keyOf).filter((key) => key !== undefined))]
    const blocked = await this.#blockedKeys(run, at, keys)
    const verdicts = sorted.map((row): Verdict => {
      const key = keyOf(row)
      const isFirst = key === undefined || !blocked.has(key)
      if (key !== undefined) blocked.add(key)
      return { ...waitingVerdict(row, suspects.has(row)), retryInMs: isFirst ? 0 : undefined }
    })
    const texts = verdicts.map((verdict, n) => ({ row: sorted[n]!, text: verdictOf(verdict, false, 0) }))
    await parkRows(run, at, texts, { settling: this.#settling, sql: await this.#sql() })
  }

  async #blockedKeys(run: Run, at: LocalShard, keys: readonly string[]): Promise<Set<string>> {
    const { parked } = await this.#sql()
    const found = new Set<string>()
    for (let from = 0; from < keys.length; from += MAX_BRANCHES) {
      const branches = keys
        .slice(from, from + MAX_BRANCHES)
        .map((key, n) => fill(parked.blocked, [from + n, ...placeValues(at), Buffer.from(key)]))
      const { rows } = await run(parked.blockedOfAll(branches), [])
      for (const row of rows) found.add(keys[columns.number(row, 'n')]!)
    }
    return found
  }
}
