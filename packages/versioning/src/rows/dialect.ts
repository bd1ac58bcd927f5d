import type { Kysely, RawBuilder, SelectQueryBuilder, SqlBool } from 'kysely'
import type { VersionRange } from '@txbox/core/ports'
import type { Instant } from '../rules/instant.ts'

/** Tables with any names: the types of the public functions check the names, and Kysely quotes them. */
export type AnyTables = Record<string, Record<string, unknown>>

/** The SQL that differs between PostgreSQL on the one hand, and MySQL and MariaDB on the other. */
export interface Dialect {
  readonly engine: 'postgres' | 'mysql'
  /** Returns a value as text, so that no type parser and no driver option changes it. */
  textOf(value: RawBuilder<unknown>): RawBuilder<string>
  /** Returns a version as a value that the server compares exactly. */
  version(version: bigint): unknown
  /** Whether a column of an integer type is below a version, compared exactly. */
  isBelow(column: RawBuilder<unknown>, version: bigint): RawBuilder<SqlBool>
  instant(instant: Instant): RawBuilder<unknown>
  /** The server's clock at the time of the statement, plus a duration. */
  clockPlus(ms: number): RawBuilder<unknown>
  /** Whether the column would round this instant, for a statement on an existing row of the table. */
  rounds(table: string, column: string, instant: Instant): RawBuilder<boolean>
  /** Whether the column would round this instant, for a statement without an existing row. */
  roundsInsert(table: string, column: string, instant: Instant): RawBuilder<boolean>
  /**
   * Makes a read wait for a transaction that is changing the row, so that the read sees what that transaction has
   * committed.
   */
  lock<O>(
    query: SelectQueryBuilder<AnyTables, string, O>,
    strength: 'no key update' | 'update',
  ): SelectQueryBuilder<AnyTables, string, O>
  /** The versions that a column can hold; `'any'` if its type has no such range; `undefined` if the catalog does not have it. */
  rangeOf(
    db: Kysely<AnyTables>,
    names: { readonly schema: string | undefined; readonly table: string; readonly column: string },
  ): Promise<VersionRange | 'any' | undefined>
  /** Whether an UPDATE returns what it has written. */
  readonly returns: boolean
  /** Inserts the row, or updates it if it is older, with one statement. @returns whether the row was written. */
  upsert(upsert: Upsert): Promise<boolean>
}

export interface Upsert {
  readonly row: UpsertedRow
  readonly column: string
  readonly at: RawBuilder<unknown>
  readonly set: Readonly<Record<string, unknown>>
  readonly insert: Readonly<Record<string, unknown>>
  readonly insertable: RawBuilder<SqlBool>
  readonly newer: RawBuilder<SqlBool>
}

/** The part of a `KeyedRow` that a dialect uses. */
export interface UpsertedRow {
  readonly db: Kysely<AnyTables>
  readonly table: string
  readonly key: Readonly<Record<string, unknown>>
  readonly doing: string
  translated<R>(work: () => Promise<R>): Promise<R>
}

/** Returns the result of {@link Dialect.textOf} as a string: some drivers return text as bytes. */
export function textResult(value: unknown): string | null {
  return Buffer.isBuffer(value) ? value.toString() : (value as string | null)
}
