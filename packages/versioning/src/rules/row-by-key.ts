import { InvalidOptionError, TransactionConflictError } from '@txbox/core'
import { nameOf, oneLine } from '@txbox/core/internal'
import { RowNotFoundError } from '../errors.ts'
import { isDate } from './instant.ts'

/**
 * The maximum number of attempts to write a row that other transactions keep changing, which can only happen outside of
 * a transaction.
 */
const ROUNDS = 20

type Values = Readonly<Record<string, unknown>>

/** A write to the row, and how to interpret a write that changed nothing. `L` describes what to read from the row. */
export interface KeyedWrite<R, L> {
  /** @returns whether the row was written. */
  readonly write: () => Promise<boolean>
  /** The result if the row was written. */
  readonly written: R | (() => R)
  /** What to read from the row if it was not written. */
  readonly look: () => L
  /**
   * Converts the value that was read to a result, or throws. `undefined` means that the row has changed in the meantime
   * and must be written again.
   */
  readonly explain: (found: string | null, round: number) => R | undefined
  /**
   * Converts a missing row to a result, or throws. `undefined` means that the row must be written again. @default
   * throws a RowNotFoundError
   */
  readonly missing?: (() => Promise<R | undefined>) | undefined
}

/** The row of a user's table that has a given key: what does not depend on how its statements are sent. */
export abstract class RowByKey<L> {
  readonly table: string
  readonly key: Values
  /** The name of the function that the user called. */
  protected readonly where: string
  #doing: string | undefined

  /** @throws {InvalidOptionError} when the table has no name, or the key is empty or contains a value that is not plain. */
  constructor(where: string, table: string, key: unknown) {
    this.table = checkedTable(where, table)
    this.key = checkedKey(where, key)
    this.where = where
  }

  /** For error messages: `orders (id = 'o1')` */
  get description(): string {
    const columns = Object.entries(this.key).map(([column, value]) => `${column} = ${formatted(value)}`)
    return `${oneLine(this.table, 130)} (${oneLine(columns.join(', '), 500)})`
  }

  /** The beginning of every error message. Put together only when it is needed: that takes longer than the rest of a call. */
  get doing(): string {
    return (this.#doing ??= `${this.where}: ${this.description}`)
  }

  /**
   * Reads the current row, waits for a transaction that is changing the row, and keeps the row as it is until the end of the
   * transaction.
   *
   * @returns at most two rows.
   */
  protected abstract look(look: L): Promise<readonly (string | null)[]>

  /**
   * Writes the row. If nothing was written, one further statement finds out why: it waits for a transaction that is
   * changing the row, and reads the committed row instead of an old snapshot. The result therefore describes the
   * current row, and stays true until the end of the transaction.
   */
  async settle<R>({ write, written, look, explain, missing }: KeyedWrite<R, L>): Promise<R> {
    for (let round = 1; round <= ROUNDS; round++) {
      if (await write()) return typeof written === 'function' ? (written as () => R)() : written
      const rows = await this.look(look())
      if (rows.length > 1) throw this.ambiguous()
      const [found] = rows
      if (found === undefined && missing === undefined) throw this.notFound()
      const result = found === undefined ? await missing?.() : explain(found, round)
      if (result !== undefined) return result
    }
    throw new TransactionConflictError(
      `${this.doing} matches but was not written in ${ROUNDS} attempts: other transactions keep changing the row, or a trigger ` +
        'or a policy of the table prevents the write. Run the call again in a transaction.',
    )
  }

  notFound(): RowNotFoundError {
    return new RowNotFoundError(
      `${this.doing}: there is no such row. Nothing was written. Create the row first, or check the key.`,
      { table: this.table },
    )
  }

  ambiguous(): InvalidOptionError {
    return new InvalidOptionError(
      `${this.doing}: 'where' matches several rows; expected the columns of a unique key. Roll back your transaction. Without ` +
        'a transaction of your own, nothing was written.',
    )
  }
}

function checkedTable(where: string, table: unknown): string {
  if (typeof table === 'string' && table !== '') return table
  throw new InvalidOptionError(`${where}: expected the name of a table, not ${nameOf(table)}.`)
}

/**
 * Checks the key. Only plain values are accepted: drivers turn objects and arrays into other SQL (on MySQL, `{ id: {
 * id: 1 } }` from the body of a request would match every row), and an expression can match any row.
 */
function checkedKey(where: string, key: unknown): Values {
  if (typeof key !== 'object' || key === null || Array.isArray(key)) {
    throw new InvalidOptionError(
      `${where}: 'where' must be an object of columns and values, not ${nameOf(key)}.`,
    )
  }
  const entries = Object.entries(key as Values)
  if (entries.length === 0) {
    throw new InvalidOptionError(
      `${where}: 'where' is empty, so it would match every row. Name the columns of a unique key.`,
    )
  }
  for (const [column, value] of entries) {
    if (!isPlain(value)) {
      throw new InvalidOptionError(
        `${where}: in 'where', the value of '${oneLine(column)}' must be a string, number, bigint, boolean, Date or Uint8Array, not ` +
          `${nameOf(value)}. Nothing was written.`,
      )
    }
  }
  return key as Values
}

function isPlain(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value)
  if (isDate(value)) return !Number.isNaN(value.getTime())
  return ['string', 'bigint', 'boolean'].includes(typeof value) || value instanceof Uint8Array
}

/** For error messages, shortened to 60 characters. */
function formatted(value: unknown): string {
  if (value instanceof Uint8Array) return `${value.byteLength} bytes`
  const text = isDate(value) ? value.toISOString() : String(value)
  const short = text.length > 60 ? `${text.slice(0, 60)}…` : text
  return typeof value === 'string' ? `'${short}'` : short
}
