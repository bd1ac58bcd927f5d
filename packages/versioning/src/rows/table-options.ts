import type { ControlledTransaction, Insertable, Kysely, Selectable, Transaction, UpdateObject } from 'kysely'
import type { Version } from '../version.ts'

/**
 * A Kysely root, a transaction or a controlled transaction. The union lists each class, because TypeScript 5 infers the
 * schema of a subclass wrongly from its base class.
 */
// oxlint-disable-next-line typescript/no-explicit-any -- savepoints with any names
export type AnyKysely<DB> = Kysely<DB> | Transaction<DB> | ControlledTransaction<DB, any>

export type TableOf<DB> = keyof DB & string

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

/** Columns of a primary key or another unique key, with their values. */
export type RowKey<DB, TB extends keyof DB> = {
  readonly [C in ColumnOf<DB, TB>]?: NonNullable<Row<DB, TB>[C]>
}

/** The option `versionColumn`, which is optional for a table with a version column named `version`. */
export type Named<DB, TB extends keyof DB, VC extends string> =
  'version' extends VersionColumn<DB, TB>
    ? {
        /** The column of the version, which must have an integer type. @default 'version' */
        versionColumn?: VC | undefined
      }
    : {
        /** The column of the version, which must have an integer type. */
        versionColumn: VC
      }

/** The column `version`, if the table has one of a suitable type; otherwise `versionColumn` must be set. */
export type DefaultVersion<DB, TB extends keyof DB> = 'version' & VersionColumn<DB, TB>

/** Values or Kysely expressions, except for the column that txbox writes itself. */
export type SetOf<DB, TB extends keyof DB, Managed extends string> = UpdateObject<DB, TB, TB> &
  Without<Managed>

/**
 * A conditional type, because with a mapped type TypeScript could not infer the type of `(eb) => …` among the values.
 */
type Without<C extends string> = C extends string ? { readonly [K in C]?: never } : never

export type NewRow<DB, TB extends keyof DB> = Insertable<DB[TB]>
