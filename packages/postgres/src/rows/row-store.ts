/*
 * PostgreSQL returns the rows that a statement wrote, and reports a missing unique key by itself; MySQL and MariaDB return
 * counts, and are asked for the keys of a table.
 */
import type { Session } from '@txbox/core'
import type { ColumnValue, RowCondition, RowRoot, RowStore, UserRow } from '@txbox/core/ports'
import { isCausedBy, propertyOf } from '@txbox/core/internal'
import { TableCatalog, columnValue, explainWrongName, noTable, notUnique } from '@txbox/sql/stores'
import type { Resolver, SqlResult } from '@txbox/sql/transactions'
import { translate } from '../connection/errors.ts'
import { quotedName, quotedTable } from '../connection/identifiers.ts'
import { bind, open, type PostgresSession } from '../connection/session.ts'
import { sendInTurn } from '../connection/statement-turns.ts'
import { expressionOf, tableColumn, textOf } from './row-columns.ts'
import { rowStatements, type RowParts } from './row-statements.ts'

/** Undefined table, schema, column; a value of another type than the column; no such operator for the type of the column. */
const WRONG_NAMES: ReadonlySet<unknown> = new Set(['42P01', '3F000', '42703', '42804', '42883'])

/** There is no unique or exclusion constraint matching the ON CONFLICT specification. */
const NO_UNIQUE_KEY = '42P10'

/** The times within which a table is read again after its columns have changed. */
const READS = 3

/** Tables of the user in PostgreSQL. {@link RowStore} documents the methods. */
export class PostgresRowStore implements RowStore {
  readonly bind: RowStore['bind']
  readonly root: RowRoot | undefined
  readonly #catalog = new TableCatalog(async (session, table) =>
    (
      await run(
        session,
        { row: { doing: `reading the columns of ${table}` } },
        'columns',
        rowStatements.columns,
        [table],
      )
    ).map(tableColumn),
  )

  constructor(resolver: Resolver, root: RowRoot | undefined) {
    this.bind = (handle) => bind(resolver, handle)
    this.root = root
  }

  readonly rangeOf: RowStore['rangeOf'] = (session, row, column, options) =>
    this.#catalog.rangeOf(session, quotedTable(row, row.table), column, options)

  readonly update: RowStore['update'] = async (session, row, { set, to, condition }) => {
    const parts = { ...partsOf(row, condition), set: quotedNames(row, set) }
    const values = [...plain(set), written(to), ...plain(row.key), ...valuesOf(row, condition)]
    const rows = await run(session, at(row, condition), 'update', rowStatements.update(parts), values)
    const found = rows[0]?.['found']
    return { count: rows.length, ...(typeof found === 'string' && { found }) }
  }

  readonly delete: RowStore['delete'] = async (session, row, condition) => {
    const values = [...plain(row.key), ...valuesOf(row, condition)]
    return (
      await run(session, at(row, condition), 'delete', rowStatements.delete(partsOf(row, condition)), values)
    ).length
  }

  readonly insertOrUpdate: RowStore['insertOrUpdate'] = async (
    session,
    row,
    { set, insert, to, condition },
  ) => {
    const parts = {
      ...partsOf(row, condition),
      ...{ set: quotedNames(row, set), insert: quotedNames(row, insert) },
    }
    const values = [
      ...plain(row.key),
      ...plain(insert),
      written(to),
      ...plain(set),
      ...valuesOf(row, condition),
    ]
    try {
      const text = rowStatements.insertOrUpdate(parts)
      return (await run(session, at(row, condition), 'insertOrUpdate', text, values)).length > 0
    } catch (error) {
      throw isNotUnique(error) ? notUnique(row.doing, error) : error
    }
  }

  readonly look: RowStore['look'] = async (session, row, condition) => {
    const values = [...plain(row.key), ...(condition.is === 'older' ? valuesOf(row, condition) : [])]
    const rows = await run(
      session,
      at(row, condition),
      'look',
      rowStatements.look(partsOf(row, condition)),
      values,
    )
    return rows.map(({ found }) => found as string | null)
  }

  readonly refusalOf: RowStore['refusalOf'] = async (session, row, condition) => {
    const text = rowStatements.refusal(partsOf(row, condition))
    const rows = await run(session, at(row, condition), 'refusal', text, valuesOf(row, condition))
    return rows[0]!['found'] as string
  }

  readonly read: RowStore['read'] = async (session, row, { locked }) => {
    const table = quotedTable(row, row.table)
    const key = Object.keys(row.key).map((name) => quotedName(row, name))
    for (let reads = 1; ; reads++) {
      const columns = await this.#catalog.columnsOf(session, table, { again: reads > 1 })
      if (columns.length === 0) throw noTable(row)
      const expressions = columns.map((column, n) => `${expressionOf(column)} as c${n}`)
      const text = rowStatements.read({ table, key }, expressions, locked)
      const rows = await this.#catalog.forgettingOnError(table, () =>
        run(session, { row }, 'read', text, [...plain(row.key), table]),
      )
      const isCurrent = rows.every((each) => Number(each['columns']) === columns.length)
      if (!isCurrent && reads < READS) continue
      return rows.map((each) =>
        Object.fromEntries(
          columns.map(({ name, kind }, n) => [name, columnValue(kind, textOf(kind, each[`c${n}`]))]),
        ),
      )
    }
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
  values: readonly unknown[],
): Promise<SqlResult['rows']> {
  try {
    await open(session)
    return (await sendInTurn(session as PostgresSession, text, values)).rows
  } catch (error) {
    const translated = translate(error, row.doing)
    throw explainWrongName(translated, { doing: row.doing, statement, column }, isWrongName)
  }
}

function isNotUnique(error: unknown): boolean {
  return isCausedBy(
    error,
    (at) => (propertyOf(at, 'originalCode') ?? propertyOf(at, 'code')) === NO_UNIQUE_KEY,
  )
}

function isWrongName(error: unknown): boolean {
  // Prisma keeps the server's code as `originalCode`.
  return isCausedBy(error, (at) => WRONG_NAMES.has(propertyOf(at, 'originalCode') ?? propertyOf(at, 'code')))
}

function partsOf(row: UserRow, condition: RowCondition): RowParts {
  return {
    table: quotedTable(row, row.table),
    key: quotedNames(row, row.key),
    column: quotedName(row, condition.column),
    is: condition.is,
    ...(condition.is === 'one of' && { states: condition.states.length }),
    isLimited: condition.is === 'older' && condition.maxAheadMs !== undefined,
  }
}

function quotedNames(row: UserRow, values: object): readonly string[] {
  return Object.keys(values).map((name) => quotedName(row, name))
}

function valuesOf(row: UserRow, condition: RowCondition): readonly (string | null)[] {
  if (condition.is === 'one of') return condition.states
  if (condition.is !== 'older') return [String(condition.version)]
  const { at, column, maxAheadMs } = condition
  // The precision up to which the column would round the time.
  const mostDecimals = String(at.decimals - 1)
  const ahead = maxAheadMs === undefined ? [] : [String(maxAheadMs)]
  return [at.iso, quotedTable(row, row.table), column, mostDecimals, ...ahead]
}

function written(to: bigint | string | { readonly iso: string }): string {
  return typeof to === 'object' ? to.iso : String(to)
}

/** Texts and bytes, whose type the server determines: a driver would convert other values by the settings of the user. */
function plain(values: Readonly<Record<string, ColumnValue>>): readonly (string | Buffer | null)[] {
  return Object.values(values).map((value) => {
    if (value === null || typeof value === 'string') return value
    if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    return value instanceof Date ? value.toISOString() : String(value)
  })
}
