import type { VersionRange } from '@txbox/core/ports'
import { InsertQueryNode } from 'kysely'
import { assertVersionsFit } from '../rules/version-range.ts'
import type { KeyedRow } from './keyed-row.ts'

/** The ranges that are known, by the adapter of a root. The transactions of a root share its adapter. */
const known = new WeakMap<object, Map<string, VersionRange | 'any'>>()

/** @throws {InvalidMessageError} when the column cannot hold one of the versions. */
export function assertFits(row: KeyedRow, column: string, ...versions: readonly bigint[]): Promise<void> {
  return assertVersionsFit(row, column, versions, ({ again }) => rangeOf(row, column, again))
}

/** The server is asked once for each column of a root, unless `again` is true. */
async function rangeOf(row: KeyedRow, column: string, again: boolean): Promise<VersionRange | undefined> {
  const names = namesOf(row, column)
  if (names === undefined) return undefined
  const { adapter } = row.db.getExecutor()
  const ranges = known.get(adapter) ?? new Map<string, VersionRange | 'any'>()
  known.set(adapter, ranges)
  const key = JSON.stringify([names.schema, names.table, names.column])
  const range =
    (again ? undefined : ranges.get(key)) ??
    (await row.translated(() => row.dialect.rangeOf(row.db.withoutPlugins(), names)))
  if (range === undefined) ranges.delete(key)
  else ranges.set(key, range)
  return range === 'any' ? undefined : range
}

/** The names as the server knows them: plugins may change names. */
function namesOf(
  row: KeyedRow,
  column: string,
): { schema: string | undefined; table: string; column: string } | undefined {
  const { query } = row.db
    .insertInto(row.table)
    .values({ [column]: 0 })
    .compile()
  if (!InsertQueryNode.is(query) || query.into === undefined) return undefined
  const { schema, identifier } = query.into.table
  return { schema: schema?.name, table: identifier.name, column: query.columns?.[0]?.column.name ?? column }
}
