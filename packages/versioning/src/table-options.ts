import type { ControlledTransaction, Insertable, Kysely, Selectable, Transaction, UpdateObject } from 'kysely'
import type { Version } from './version.ts'

/**
 * A Kysely transaction, also a controlled one, or a root. Each by its own name: TypeScript 5 infers the schema of a
 * subclass wrongly from that of its base.
 */
// oxlint-disable-next-line typescript/no-explicit-any -- savepoints of any names
export type AnyKysely<DB> = Kysely<DB> | Transaction<DB> | ControlledTransaction<DB, any>

/** The names of a schema's tables. */
export type TableOf<DB> = keyof DB & string

/** A row as it is selected. */
export type Row<DB, TB extends keyof DB> = Selectable<DB[TB]>

export type ColumnOf<DB, TB extends keyof DB> = keyof Row<DB, TB> & string

/** Columns whose selected type can be a version. */
export type VersionColumn<DB, TB extends keyof DB> = {
  [C in ColumnOf<DB, TB>]: Row<DB, TB>[C] extends Version ? C : never
}[ColumnOf<DB, TB>]

/** Columns whose selected type can be a point in time. */
export type TimeColumn<DB, TB extends keyof DB> = {
  [C in ColumnOf<DB, TB>]: NonNullable<Row<DB, TB>[C]> extends Date | string ? C : never
}[ColumnOf<DB, TB>]

/** Equality with plain values on columns that together name one row: a primary or another unique key. */
export type RowKey<DB, TB extends keyof DB> = {
  readonly [C in ColumnOf<DB, TB>]?: NonNullable<Row<DB, TB>[C]>
}

/** The version column, unless the row belongs to a table with one of the name `version`. */
export type Named<DB, TB extends keyof DB, VC extends string> =
  'version' extends VersionColumn<DB, TB>
    ? {
        /** The column of the version: of an integer type. @default 'version' */
        versionColumn?: VC | undefined
      }
    : {
        /** The column of the version: of an integer type. */
        versionColumn: VC
      }

/** The column `version` where the table has one that can be a version; otherwise it must be named. */
export type DefaultVersion<DB, TB extends keyof DB> = 'version' & VersionColumn<DB, TB>

/** Values or Kysely expressions, but not for the column that txbox writes itself. */
export type SetOf<DB, TB extends keyof DB, Ours extends string> = UpdateObject<DB, TB, TB> & Without<Ours>

/** A conditional type, because a mapped one would keep TypeScript from typing `(eb) => …` among the values. */
type Without<C extends string> = C extends string ? { readonly [K in C]?: never } : never

/** A new row. */
export type NewRow<DB, TB extends keyof DB> = Insertable<DB[TB]>
