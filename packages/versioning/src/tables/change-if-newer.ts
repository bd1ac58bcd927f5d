import { LIMITS } from '@txbox/core'
import { OptionChecker } from '@txbox/core/internal'
import type { RowCondition, RowStore } from '@txbox/core/ports'
import { instantOf } from '../rules/instant.ts'
import { timeAhead, timeRounded } from '../rules/refused-times.ts'
import { TableRow } from './table-row.ts'

type Outcome = { status: 'applied' | 'stale' }
type Older = RowCondition & { readonly is: 'older' }

/** See `Versioning.applyIfNewer`. */
export async function applyIfNewer(
  rows: RowStore,
  tx: unknown,
  table: string,
  options: {
    readonly where: unknown
    readonly column: string
    readonly at: unknown
    readonly set: unknown
    readonly insert?: unknown
    readonly maxAheadMs?: number | undefined
  },
): Promise<Outcome> {
  const where = 'applyIfNewer'
  const check = new OptionChecker(where, options)
  check.known('where', 'column', 'at', 'set', 'insert', 'maxAheadMs')
  const column = check.text('column', { max: 255 })
  const at = instantOf(where, 'at', options.at)
  const maxAheadMs =
    options.maxAheadMs === undefined
      ? undefined
      : check.milliseconds('maxAheadMs', { min: 0, max: LIMITS.durationMs, default: 0 })
  const given = new TableRow(where, rows, table, options.where)
  const set = given.checkedSet(options.set, column)
  const insert = options.insert === undefined ? undefined : given.checkedInsert(options.insert, column)
  const row = given.in(await rows.bind(tx))
  const condition: Older = { is: 'older', column, at, maxAheadMs }
  const change = { set, to: at, condition }
  return row.settle<Outcome>({
    write: async () =>
      insert === undefined
        ? (await row.update(change)).written
        : rows.insertOrUpdate(row.session, row, { ...change, insert }),
    written: { status: 'applied' },
    look: () => condition,
    explain(verdict) {
      refuse(row, condition, verdict)
      return verdict === 'stale' ? { status: 'stale' } : undefined
    },
    // If nothing speaks against the time, the row existed and was deleted in the meantime: it must be written again.
    missing:
      insert &&
      (async () => {
        refuse(row, condition, await rows.refusalOf(row.session, row, condition))
        return undefined
      }),
  })
}

function refuse(row: TableRow, { at }: Older, verdict: string | null): void {
  if (verdict === 'ahead') throw timeAhead(row, at)
  if (verdict === 'rounds') throw timeRounded(row, at)
}
