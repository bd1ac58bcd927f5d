import { InvalidOptionError } from '@txbox/core'
import { InsertQueryNode, sql, type CompiledQuery } from 'kysely'
import type { KeyedRow } from './keyed-row.ts'

/** Keys that have been found unique, by root: the transactions of a root share its adapter. */
const known = new WeakMap<object, Set<string>>()

/**
 * MySQL and MariaDB update by any unique key with which a new row collides, and add the row if there is no collision. So a
 * `where` whose columns contain no unique key would add a row at each call. The server is asked once for each table and
 * key of a root.
 *
 * @param insert the statement, whose names are those that the server knows.
 * @param columns the columns of that statement by the names that the caller gave them, in order.
 * @throws {InvalidOptionError} when no unique key consists of columns of `where`.
 */
export async function assertUniqueKey(
  row: KeyedRow,
  insert: CompiledQuery,
  columns: readonly string[],
): Promise<void> {
  const { query } = insert
  if (!InsertQueryNode.is(query) || query.into === undefined) return
  const { schema, identifier } = query.into.table
  const named = columns.map((name, n) => [name, query.columns?.[n]?.column.name ?? name] as const)
  const key = named.filter(([name]) => Object.hasOwn(row.key, name)).map(([, name]) => name.toLowerCase())
  const checked = JSON.stringify([schema?.name, identifier.name, ...key.toSorted()])
  const { adapter } = row.db.getExecutor()
  if (known.get(adapter)?.has(checked) === true) return
  const table = schema === undefined ? sql.id(identifier.name) : sql.id(schema.name, identifier.name)
  const indexes = new Map<string, boolean>()
  const { rows } = await row.translated(() =>
    sql<Readonly<Record<string, unknown>>>`show index from ${table}`.execute(row.db.withoutPlugins()),
  )
  for (const { Key_name: index, Non_unique: nonUnique, Column_name: column } of rows) {
    // An index on an expression has no column.
    const covered = String(nonUnique) === '0' && key.includes(String(column).toLowerCase())
    indexes.set(String(index), (indexes.get(String(index)) ?? true) && covered)
  }
  if (![...indexes.values()].includes(true)) throw notUnique(row)
  known.set(adapter, (known.get(adapter) ?? new Set()).add(checked))
}

export function notUnique(row: KeyedRow, cause?: unknown): InvalidOptionError {
  return new InvalidOptionError(
    `${row.doing}: no unique key of the table consists of the columns of 'where', so 'insert' could add a row at each call. ` +
      'Nothing was written. Name the columns of a unique key, or create one.',
    { cause },
  )
}
