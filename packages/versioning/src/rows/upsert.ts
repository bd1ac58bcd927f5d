import { expressionBuilder, sql, type RawBuilder } from 'kysely'
import type { AnyTables, Upsert } from './dialect.ts'

export { checkedInsert } from '../rules/set-option.ts'

/** The values of a new row, by column name. */
export function valuesOf({ row, column, at, insert }: Upsert): Readonly<Record<string, unknown>> {
  const values = Object.entries({ ...insert, ...row.key, [column]: at })
  return Object.fromEntries(values.filter(([, value]) => value !== undefined))
}

/** Builds an INSERT … SELECT, so that a time that is ahead of the clock or would be rounded inserts nothing. */
export function inserting(upsert: Upsert) {
  const { row, insertable } = upsert
  const values = Object.entries(valuesOf(upsert))
  return row.db
    .insertInto(row.table)
    .columns(values.map(([name]) => name))
    .expression(
      // As a part of the INSERT, the SELECT is transformed by plugins once.
      row.db
        .withoutPlugins()
        .selectNoFrom(values.map(([name, value]) => expressionOf(value).as(name)))
        .where(insertable),
    )
}

/** Converts a value, a Kysely expression, or a function that returns a Kysely expression. */
export function expressionOf(value: unknown): RawBuilder<unknown> {
  if (typeof value !== 'function') return sql`${value}`
  const make = value as (builder: unknown) => unknown
  return sql`${make(expressionBuilder<AnyTables, string>())}`
}
