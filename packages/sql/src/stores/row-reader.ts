/** The range in which a `Date` shows the year with four digits. */
const EARLIEST_MS = Date.parse('0001-01-01')
const LATEST_MS = Date.UTC(9999, 11, 31)

export type Row = Readonly<Record<string, unknown>>

/** The form in which a database returns values. */
interface Encoding {
  /** Returns the text of a value that is not null. */
  textOf(value: unknown): string
  /** Returns the text of a key, whose column is compared byte for byte. */
  keyOf(value: unknown): string
  /** The text by which the database represents true. */
  readonly isTrue: string
  /** The number of the database's units of time per millisecond. */
  readonly instantsPerMs: number
}

/** Reads the columns of rows by name and type. Every statement returns numbers, instants and flags as text. */
export class RowReader {
  readonly #encoding: Encoding

  constructor(encoding: Encoding) {
    this.#encoding = encoding
  }

  /** Whether the value is not null. */
  has(row: Row | undefined, name: string): boolean {
    return (row?.[name] ?? null) !== null
  }

  text(row: Row | undefined, name: string): string {
    return this.#encoding.textOf(row?.[name])
  }

  /** Returns `undefined` for null, or if there is no row. */
  optionalText(row: Row | undefined, name: string): string | undefined {
    return this.has(row, name) ? this.text(row, name) : undefined
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

  /** Reads an instant in the units of the database, clamped to the range of a `Date`. */
  date(row: Row | undefined, name: string): Date {
    // A row that was edited by hand may contain an instant that a `Date` cannot represent, such as PostgreSQL's
    // 'infinity'.
    const ms = Math.floor(this.number(row, name) / this.#encoding.instantsPerMs)
    return new Date(Math.min(Math.max(ms, EARLIEST_MS), LATEST_MS))
  }
}
