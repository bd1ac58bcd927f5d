import { InvalidOptionError } from '@txbox/core'
import { expressionBuilder, sql, type RawBuilder, type SqlBool } from 'kysely'
import type { AnyTables } from './dialect.ts'
import type { KeyedRow } from './keyed-row.ts'
import { assertUniqueKey, notUnique } from './unique-key.ts'

export interface Upsert {
  readonly row: KeyedRow
  readonly column: string
  readonly at: RawBuilder<unknown>
  readonly set: Readonly<Record<string, unknown>>
  readonly insert: Readonly<Record<string, unknown>>
  readonly insertable: RawBuilder<SqlBool>
  readonly newer: RawBuilder<SqlBool>
}

/**
 * Inserts the row, or updates the row if it is older, with one statement.
 *
 * @returns whether the row was written.
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
  try {
    const { numInsertedOrUpdatedRows } = await row.translated(() => query.executeTakeFirstOrThrow())
    return (numInsertedOrUpdatedRows ?? 0n) > 0n
  } catch (error) {
    throw Reflect.get(Object(error), 'code') === NO_UNIQUE_KEY ? notUnique(row, error) : error
  }
}

/** PostgreSQL: there is no unique or exclusion constraint matching the ON CONFLICT specification. */
const NO_UNIQUE_KEY = '42P10'

/**
 * The values of LAST_INSERT_ID if the new row collided with the row of this key, or with another row. No AUTO_INCREMENT
 * column reaches these values.
 */
const SAME_ROW = 2n ** 53n - 1n
const OTHER_ROW = SAME_ROW - 1n

/**
 * The row count does not distinguish an inserted row (1) from an unchanged row (1, or 0 without the driver's FOUND_ROWS
 * flag); only an updated row counts as 2. So the statement calls LAST_INSERT_ID with an argument that is not constant,
 * which is evaluated only for existing rows. The time is assigned last, because MySQL assigns from left to right and
 * the conditions read the old time.
 */
async function onDuplicateKey(upsert: Upsert): Promise<boolean> {
  const { row, column, at, set } = upsert
  const same = sql<SqlBool>`${sql.join(
    Object.entries(row.key).map(([name, value]) => sql`${sql.ref(name)} = ${value}`),
    sql` and `,
  )}`
  const newer = sql<SqlBool>`${same} and ${upsert.newer}`
  const marker = sql`last_insert_id(if(${same}, ${sql.lit(SAME_ROW)}, ${sql.lit(OTHER_ROW)}))`
  const assignments = Object.entries(set)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, sql`if(${newer}, ${expressionOf(value)}, ${sql.ref(name)})`])
  const query = inserting(upsert).onDuplicateKeyUpdate({
    ...Object.fromEntries(assignments),
    [column]: sql`if(${marker} and ${newer}, ${at}, ${sql.ref(column)})`,
  })
  const compiled = query.compile()
  await assertUniqueKey(row, compiled, Object.keys(valuesOf(upsert)))
  const { insertId, numAffectedRows } = await row.translated(() => row.db.executeQuery(compiled))
  if (insertId === OTHER_ROW) throw collides(row)
  return numAffectedRows === 2n || (numAffectedRows === 1n && insertId !== SAME_ROW)
}

/** The values of a new row, by column name. */
function valuesOf({ row, column, at, insert }: Upsert): Readonly<Record<string, unknown>> {
  const values = Object.entries({ ...insert, ...row.key, [column]: at })
  return Object.fromEntries(values.filter(([, value]) => value !== undefined))
}

/** Builds an INSERT … SELECT, so that a time that is ahead of the clock or would be rounded inserts nothing. */
function inserting(upsert: Upsert) {
  const { row, insertable } = upsert
  const values = Object.entries(valuesOf(upsert))
  return row.db
    .insertInto(row.table)
    .columns(values.map(([name]) => name))
    .expression(
      // Plugins transform the SELECT once, as a part of the INSERT.
      row.db
        .withoutPlugins()
        .selectNoFrom(values.map(([name, value]) => expressionOf(value).as(name)))
        .where(insertable),
    )
}

/** Converts a value, a Kysely expression, or a function that returns a Kysely expression. */
function expressionOf(value: unknown): RawBuilder<unknown> {
  if (typeof value !== 'function') return sql`${value}`
  const make = value as (builder: unknown) => unknown
  return sql`${make(expressionBuilder<AnyTables, string>())}`
}

function collides(row: KeyedRow): InvalidOptionError {
  return new InvalidOptionError(
    `${row.doing}: the row to insert collides with a row that has the same value of another unique key. Nothing was written. ` +
      "Use values in 'insert' that no other row has.",
  )
}
