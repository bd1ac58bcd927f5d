import { InvalidOptionError } from '@txbox/core'
import { expressionBuilder, sql, type RawBuilder, type SqlBool } from 'kysely'
import type { AnyTables } from './dialect.ts'
import type { KeyedRow } from './keyed-row.ts'

export interface Upsert {
  readonly row: KeyedRow
  readonly column: string
  readonly at: RawBuilder<unknown>
  readonly set: Readonly<Record<string, unknown>>
  readonly insert: Readonly<Record<string, unknown>>
  readonly timely: RawBuilder<SqlBool>
  readonly newer: RawBuilder<SqlBool>
}

/**
 * Inserts the row, or updates it if it is older: one statement.
 *
 * @returns whether it was written.
 */
export async function upsertIfNewer(upsert: Upsert): Promise<boolean> {
  return upsert.row.dialect.engine === 'postgres' ? onConflict(upsert) : onDuplicateKey(upsert)
}

async function onConflict(upsert: Upsert): Promise<boolean> {
  const { row, column, at, set, newer } = upsert
  const query = inserting(upsert).onConflict((conflict) =>
    conflict
      .columns(Object.keys(row.key))
      .doUpdateSet({ ...set, [column]: at })
      .where(newer),
  )
  const { numInsertedOrUpdatedRows } = await row.translated(() => query.executeTakeFirstOrThrow())
  return (numInsertedOrUpdatedRows ?? 0n) > 0n
}

/**
 * What LAST_INSERT_ID is set to when a row of this key, or of another unique key, was there. No AUTO_INCREMENT comes
 * that far.
 */
const THERE = 2n ** 53n - 1n
const ANOTHER = THERE - 1n

/**
 * The counts do not tell a row that was inserted (1) from one that was left as it was (1, or 0 without the driver's
 * FOUND_ROWS flag); only one that was updated is 2. LAST_INSERT_ID of anything but a constant is called for rows that
 * were there, and for no others. The time comes last: MySQL assigns from left to right, and the conditions look at it.
 */
async function onDuplicateKey(upsert: Upsert): Promise<boolean> {
  const { row, column, at, set } = upsert
  const same = sql<SqlBool>`${sql.join(
    Object.entries(row.key).map(([name, value]) => sql`${sql.ref(name)} = ${value}`),
    sql` and `,
  )}`
  const newer = sql<SqlBool>`${same} and ${upsert.newer}`
  const marker = sql`last_insert_id(if(${same}, ${sql.lit(THERE)}, ${sql.lit(ANOTHER)}))`
  const assignments = Object.entries(set)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, sql`if(${newer}, ${expressionOf(value)}, ${sql.ref(name)})`])
  const query = inserting(upsert).onDuplicateKeyUpdate({
    ...Object.fromEntries(assignments),
    [column]: sql`if(${marker} and ${newer}, ${at}, ${sql.ref(column)})`,
  })
  const { insertId, numInsertedOrUpdatedRows = 0n } = await row.translated(() =>
    query.executeTakeFirstOrThrow(),
  )
  if (insertId === ANOTHER) throw collides(row)
  return numInsertedOrUpdatedRows === 2n || (numInsertedOrUpdatedRows === 1n && insertId !== THERE)
}

/** INSERT … SELECT, so that a time ahead of the clock inserts nothing. */
function inserting({ row, column, at, insert, timely }: Upsert) {
  const values = Object.entries({ ...insert, ...row.key, [column]: at }).filter(
    ([, value]) => value !== undefined,
  )
  return row.db
    .insertInto(row.table)
    .columns(values.map(([name]) => name))
    .expression(
      // The plugins see it as a part of the INSERT, once.
      row.db
        .withoutPlugins()
        .selectNoFrom(values.map(([name, value]) => expressionOf(value).as(name)))
        .where(timely),
    )
}

/** A value, an expression of Kysely's, or a function that makes one, as Kysely takes them. */
function expressionOf(value: unknown): RawBuilder<unknown> {
  if (typeof value !== 'function') return sql`${value}`
  const make = value as (builder: unknown) => unknown
  return sql`${make(expressionBuilder<AnyTables, string>())}`
}

function collides(row: KeyedRow): InvalidOptionError {
  return new InvalidOptionError(
    `${row.doing}: the row to insert collides with another one by another unique key. Nothing was written. Give 'insert' ` +
      'values of its own.',
  )
}
