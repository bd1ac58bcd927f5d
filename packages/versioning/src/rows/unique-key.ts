import { InvalidOptionError } from '@txbox/core'
import { InsertQueryNode, sql, type CompiledQuery } from 'kysely'
import type { UpsertedRow } from './dialect.ts'
import { mysqlStatements } from './mysql-statements.ts'

/** The keys that are known to be unique, by the adapter of a root. The transactions of a root share its adapter. */
const known = new WeakMap<object, Set<string>>()

/**
 * Checks that the columns of `where` contain a unique key. MySQL and MariaDB update the row if a new row collides with
 * any unique key, and otherwise insert the new row. Without a unique key, each call would insert a row. The server is
 * asked once for each table and key of a root.
 *
 * @param insert the statement, which contains the names as the server knows them.
 * @param columns the columns of the statement in order, with the names that the caller used.
 * @throws {InvalidOptionError} when the columns of `where` contain no unique key.
 */
export async function assertUniqueKey(
  row: UpsertedRow,
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
    mysqlStatements.indexesOf(table).execute(row.db.withoutPlugins()),
  )
  for (const { Key_name: index, Non_unique: nonUnique, Column_name: column } of rows) {
    // An index on an expression has no column.
    const covered = String(nonUnique) === '0' && key.includes(String(column).toLowerCase())
    indexes.set(String(index), (indexes.get(String(index)) ?? true) && covered)
  }
  if (![...indexes.values()].includes(true)) throw notUnique(row)
  known.set(adapter, (known.get(adapter) ?? new Set()).add(checked))
}

export function notUnique(row: UpsertedRow, cause?: unknown): InvalidOptionError {
  return new InvalidOptionError(
    `${row.doing}: no unique key of the table consists of the columns of 'where', so each call could insert another row. ` +
      'Nothing was written. Name the columns of a unique key, or create one.',
    { cause },
  )
}
