import type { Version } from '../version.ts'

/** Tables of any names, with columns of any types: the database refuses wrong names. */
// oxlint-disable-next-line typescript/no-explicit-any -- `unknown` would be no type that a version can have
export type UntypedTables = Record<string, Record<string, any>>

export type TableOf<Tables> = keyof Tables & string

export type ColumnOf<Tables, TB extends keyof Tables> = keyof Tables[TB] & string

/** Columns whose type can be a version. */
export type VersionColumn<Tables, TB extends keyof Tables> = {
  [C in ColumnOf<Tables, TB>]: Tables[TB][C] extends Version ? C : never
}[ColumnOf<Tables, TB>]

/** Columns whose type can be a point in time. */
export type TimeColumn<Tables, TB extends keyof Tables> = {
  [C in ColumnOf<Tables, TB>]: NonNullable<Tables[TB][C]> extends Date | string ? C : never
}[ColumnOf<Tables, TB>]

/** Columns whose type can be a state. */
export type StateColumn<Tables, TB extends keyof Tables> = {
  [C in ColumnOf<Tables, TB>]: NonNullable<Tables[TB][C]> extends string ? C : never
}[ColumnOf<Tables, TB>]

/** The states that a column can contain. */
export type StateOf<Tables, TB extends keyof Tables, C extends keyof Tables[TB]> = Tables[TB][C] & string

/** Columns of a primary key or another unique key, with their values. */
export type RowKey<Tables, TB extends keyof Tables> = {
  readonly [C in ColumnOf<Tables, TB>]?: NonNullable<Tables[TB][C]>
}

/** The option `versionColumn`, which is optional for a table with a version column named `version`. */
export type Named<Tables, TB extends keyof Tables, VC extends string> =
  'version' extends VersionColumn<Tables, TB>
    ? {
        /** The column of the version, which must have an integer type. @default 'version' */
        versionColumn?: VC | undefined
      }
    : {
        /** The column of the version, which must have an integer type. */
        versionColumn: VC
      }

/** The column `version`, if the table has one of a suitable type; otherwise `versionColumn` must be set. */
export type DefaultVersion<Tables, TB extends keyof Tables> = 'version' & VersionColumn<Tables, TB>

/** Values, except for the column that txbox writes itself. */
export type SetOf<Tables, TB extends keyof Tables, Managed extends string> = {
  readonly [C in Exclude<ColumnOf<Tables, TB>, Managed>]?: Tables[TB][C] | undefined
} & { readonly [C in Managed]?: never }

/** The values of a new row. txbox sets the columns of the key, and the one that it writes itself. */
export type NewRow<Tables, TB extends keyof Tables> = {
  readonly [C in ColumnOf<Tables, TB>]?: Tables[TB][C] | null | undefined
}
