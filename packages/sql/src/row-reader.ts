/** The years that a `Date` shows with four digits. */
const EARLIEST_MS = Date.UTC(0, 0)
const LATEST_MS = Date.UTC(9999, 11, 31)

/** A row as a driver returns it. */
export type Row = Readonly<Record<string, unknown>>

/** How the values of a database come back. */
export interface Encoding {
  /** The text of a value that is not null. */
  textOf(value: unknown): string
  /** The text of a key: of a column whose bytes are compared. */
  keyOf(value: unknown): string
  /** The text of `true`. */
  readonly isTrue: string
  /** How many units of an instant make a millisecond. */
  readonly instantsPerMs: number
}

/** Reads the columns of rows by name and type. Every statement returns numbers, instants and flags as text. */
export class RowReader {
  readonly #encoding: Encoding

  constructor(encoding: Encoding) {
    this.#encoding = encoding
  }

  text(row: Row | undefined, name: string): string {
    return this.#encoding.textOf(row?.[name])
  }

  /** `undefined` for null, and without a row. */
  optionalText(row: Row | undefined, name: string): string | undefined {
    const value = row?.[name]
    return value === null || value === undefined ? undefined : this.#encoding.textOf(value)
  }

  key(row: Row, name: string): string {
    return this.#encoding.keyOf(row[name])
  }

  number(row: Row | undefined, name: string): number {
    return Number(this.text(row, name))
  }

  bigint(row: Row | undefined, name: string): bigint {
    return BigInt(this.text(row, name))
  }

  flag(row: Row | undefined, name: string): boolean {
    return this.optionalText(row, name) === this.#encoding.isTrue
  }

  /** An instant that the statement returns in the units of the database, within what a `Date` can show. */
  date(row: Row | undefined, name: string): Date {
    // Somebody may have written an instant that is no `Date`, such as PostgreSQL's 'infinity'.
    const ms = Math.floor(this.number(row, name) / this.#encoding.instantsPerMs)
    return new Date(Math.min(Math.max(ms, EARLIEST_MS), LATEST_MS))
  }
}
