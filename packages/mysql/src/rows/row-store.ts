/*
 * MySQL and MariaDB return counts, are asked for the keys of a table, and mark by LAST_INSERT_ID what an INSERT found;
 * PostgreSQL returns the rows that a statement wrote.
 */
import { InvalidOptionError, NotInTransactionError, type Session } from '@txbox/core'
import type { ColumnValue, ColumnValues, RowCondition, RowRoot, RowStore, UserRow } from '@txbox/core/ports'
import { TableCatalog, columnValue, explainWrongName, noTable, notUnique } from '@txbox/sql/stores'
import type { SqlResult } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { hasNumber } from '../connection/errors.ts'
import { quotedColumn, quotedTable, tableNames } from '../connection/identifiers.ts'
import { microseconds, type Value } from '../connection/literals.ts'
import { assertInTransaction, execute } from '../connection/session.ts'
import { expressionOf, tableColumn, textOf } from './row-columns.ts'
import { OTHER_ROW, SAME_ROW, rowStatements, type RowParts } from './row-statements.ts'

/** No such table; no such column; a value that the type of the column does not have. */
const WRONG_NAMES = [1146, 1054, 1292, 1525] as const

/** The times within which a table is read again after its columns have changed. */
const READS = 3

/** Tables of the user in MySQL and MariaDB. {@link RowStore} documents the methods. */
export class MysqlRowStore implements RowStore {
  readonly root: RowRoot | undefined
  readonly #bind: RowStore['bind']
  readonly #catalog = new TableCatalog(async (session, table) => {
    const doing = `reading the columns of ${table}`
    const { rows } = await run(
      session,
      { row: { doing } },
      'columns',
      rowStatements.columns,
      tableNames({ doing }, table),
    )
    return rows.map(tableColumn)
  })
  /** The columns of keys that are known to be unique, with their tables. */
  readonly #unique = new Set<string>()

  constructor(bind: RowStore['bind'], root: RowRoot | undefined) {
    this.#bind = bind
    this.root = root
  }

  readonly bind: RowStore['bind'] = async (handle) => {
    const session = await this.#bind(handle)
    await assertInTransaction(session)
    return session
  }

  readonly rangeOf: RowStore['rangeOf'] = (session, row, column, options) =>
    this.#catalog.rangeOf(session, row.table, column, options)

  readonly update: RowStore['update'] = async (session, row, { set, to, condition }) => {
    const parts = { ...partsOf(row, condition), set: quotedNames(row, set) }
    const values = [...plain(set), written(to), ...plain(row.key), ...valuesOf(condition)]
    return {
      count: (await run(session, at(row, condition), 'update', rowStatements.update(parts), values)).affected,
    }
  }

  readonly delete: RowStore['delete'] = async (session, row, condition) => {
    const values = [...plain(row.key), ...valuesOf(condition)]
    const text = rowStatements.delete(partsOf(row, condition))
    return (await run(session, at(row, condition), 'delete', text, values)).affected
  }

  readonly insertOrUpdate: RowStore['insertOrUpdate'] = async (
    session,
    row,
    { set, insert, to, condition },
  ) => {
    await this.#assertUniqueKey(session, row)
    const parts = {
      ...partsOf(row, condition),
      ...{ set: quotedNames(row, set), insert: quotedNames(row, insert) },
    }
    const [key, holding] = [plain(row.key), [...plain(row.key), ...valuesOf(condition)]]
    const values = [
      ...[...key, ...plain(insert), written(to), ...insertableValues(condition)],
      ...plain(set).flatMap((value) => holding.concat(value)),
      ...[...key, ...holding, written(to)],
    ]
    const text = rowStatements.insertOrUpdate(parts)
    const { affected, insertId } = await run(session, at(row, condition), 'insertOrUpdate', text, values)
    if (affected === 2) return true
    const mark = insertId ?? (await this.#mark(session, row))
    if (mark === OTHER_ROW) throw collides(row)
    return affected === 1 && mark !== SAME_ROW
  }

  readonly look: RowStore['look'] = async (session, row, condition) => {
    // The values of a time stand before those of the key: they belong to what is read.
    const values = condition.is === 'older' ? verdictValues(condition) : []
    const text = rowStatements.look(partsOf(row, condition))
    const { rows } = await run(session, at(row, condition), 'look', text, [...values, ...plain(row.key)])
    return rows.map((each) => {
      if (!columns.has(each, 'found')) return null
      return condition.is === 'older' ? columns.text(each, 'found') : columns.key(each, 'found')
    })
  }

  readonly refusalOf: RowStore['refusalOf'] = async (session, row, condition) => {
    const text = rowStatements.refusal(partsOf(row, condition))
    const { rows } = await run(session, at(row, condition), 'refusal', text, insertableValues(condition))
    return columns.text(rows[0], 'found')
  }

  readonly read: RowStore['read'] = async (session, row, { locked }) => {
    const table = quotedTable(row, row.table)
    const key = quotedNames(row, row.key)
    for (let reads = 1; ; reads++) {
      const known = await this.#catalog.columnsOf(session, row.table, { again: reads > 1 })
      if (known.length === 0) throw noTable(row)
      const expressions = known.map((column, n) => `${expressionOf(column)} as c${n}`)
      const values = [...tableNames(row, row.table), ...plain(row.key)]
      const text = rowStatements.read({ table, key }, expressions, locked)
      const { rows } = await this.#catalog.forgettingOnError(row.table, () =>
        run(session, { row }, 'read', text, values),
      )
      const isCurrent = rows.every((each) => columns.number(each, 'columns') === known.length)
      if (!isCurrent && reads < READS) continue
      return rows.map((each) =>
        Object.fromEntries(
          known.map(({ name, kind }, n) => [name, columnValue(kind, textOf(kind, each, `c${n}`))]),
        ),
      )
    }
  }

  /**
   * MySQL and MariaDB update the row if a new row collides with any unique key, and otherwise insert the new row. Without
   * a unique key, each call would insert a row.
   */
  async #assertUniqueKey(session: Session, row: UserRow): Promise<void> {
    const key = Object.keys(row.key).map((name) => name.toLowerCase())
    const checked = JSON.stringify([row.table, ...key.toSorted()])
    if (this.#unique.has(checked)) return
    const names = tableNames(row, row.table)
    const { rows } = await run(session, { row }, 'indexes', rowStatements.indexes, names)
    const indexes = new Map<string, boolean>()
    for (const each of rows) {
      const name = columns.key(each, 'name')
      // An index on an expression has no column.
      const covered = columns.has(each, 'part') && key.includes(columns.key(each, 'part').toLowerCase())
      indexes.set(name, (indexes.get(name) ?? true) && covered)
    }
    // Without any index, the table may not exist, which the next statement finds out.
    if (![...indexes.values()].includes(true)) throw notUnique(row.doing)
    this.#unique.add(checked)
  }

  async #mark(session: Session, row: UserRow): Promise<number> {
    const { rows } = await run(session, { row }, 'mark', rowStatements.mark, [])
    return columns.number(rows[0], 'mark')
  }
}

/** What a statement does, for error messages. */
interface At {
  readonly row: Pick<UserRow, 'doing'>
  readonly column?: string
}

function at(row: UserRow, { column }: RowCondition): At {
  return { row, column }
}

async function run(
  session: Session,
  { row, column }: At,
  statement: keyof typeof rowStatements,
  text: string,
  values: readonly Value[],
): Promise<SqlResult> {
  let result: SqlResult
  try {
    result = await execute(session, row.doing, text, values)
  } catch (error) {
    throw explainWrongName(error, { doing: row.doing, statement, column }, isWrongName)
  }
  if (result.inTransaction !== false) return result
  throw new NotInTransactionError(
    `${row.doing}: the transaction ended before the statement '${statement}' was sent, so what it wrote is committed. Await every call ` +
      'before you commit or roll back.',
  )
}

function isWrongName(error: unknown): boolean {
  return WRONG_NAMES.some((number) => hasNumber(error, number))
}

function collides({ doing }: UserRow): InvalidOptionError {
  return new InvalidOptionError(
    `${doing}: the row to insert collides with a row that has the same value of another unique key. Nothing was written. ` +
      "Use values in 'insert' that no other row has.",
  )
}

function partsOf(row: UserRow, condition: RowCondition): RowParts {
  return {
    table: quotedTable(row, row.table),
    key: quotedNames(row, row.key),
    column: quotedColumn(row, condition.column),
    is: condition.is,
    ...(condition.is === 'one of' && { states: condition.states.length }),
    ...(condition.is === 'older' && { decimals: condition.at.decimals }),
    isLimited: condition.is === 'older' && condition.maxAheadMs !== undefined,
  }
}

function quotedNames(row: UserRow, values: object): readonly string[] {
  return Object.keys(values).map((name) => quotedColumn(row, name))
}

/** The values of whether the condition holds. */
function valuesOf(condition: RowCondition): readonly Value[] {
  if (condition.is === 'one of') return condition.states
  if (condition.is !== 'older') return [condition.version]
  return verdictValues(condition)
}

/** The values of whether a time is not ahead, and of whether it is newer. */
function verdictValues(condition: RowCondition & { readonly is: 'older' }): readonly Value[] {
  return [...insertableValues(condition), condition.at.utc]
}

function insertableValues(condition: RowCondition): readonly Value[] {
  if (condition.is !== 'older' || condition.maxAheadMs === undefined) return []
  return [condition.at.utc, microseconds(condition.maxAheadMs)]
}

function written(to: bigint | string | { readonly utc: string }): Value {
  return typeof to === 'object' ? to.utc : to
}

/** Values that the server reads as the user means them, whatever the settings of the user's driver. */
function plain(values: ColumnValues): readonly Value[] {
  return Object.values(values).map(plainValue)
}

function plainValue(value: ColumnValue): Value {
  if (typeof value === 'boolean') return value ? 1 : 0
  if (value instanceof Date) return value.toISOString().slice(0, 23).replace('T', ' ')
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value
  // A fraction is text, which the server reads exactly.
  return Number.isInteger(value) ? BigInt(value) : String(value)
}
