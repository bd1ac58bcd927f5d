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
  const compiled = query.compile()
  await assertUniqueKey(row, compiled, Object.keys(valuesOf(upsert)))
  const { insertId, numAffectedRows } = await row.translated(() => row.db.executeQuery(compiled))
  if (insertId === ANOTHER) throw collides(row)
  return numAffectedRows === 2n || (numAffectedRows === 1n && insertId !== THERE)
}

/** The values of a new row, by column name. */
function valuesOf({ row, column, at, insert }: Upsert): Readonly<Record<string, unknown>> {
  const values = Object.entries({ ...insert, ...row.key, [column]: at })
  return Object.fromEntries(values.filter(([, value]) => value !== undefined))
}

/** INSERT … SELECT, so that a time ahead of the clock, or one that would be rounded, inserts nothing. */
function inserting(upsert: Upsert) {
  const { row, insertable } = upsert
  const values = Object.entries(valuesOf(upsert))
  return row.db
    .insertInto(row.table)
    .columns(values.map(([name]) => name))
    .expression(
      // The plugins see it as a part of the INSERT, once.
      row.db
        .withoutPlugins()
        .selectNoFrom(values.map(([name, value]) => expressionOf(value).as(name)))
        .where(insertable),
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
