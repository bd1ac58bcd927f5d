import { InvalidOptionError, TransactionConflictError } from '@txbox/core'
import { nameOf, oneLine } from '@txbox/core/internal'
import type { AliasedRawBuilder, Kysely, RawBuilder, SqlBool } from 'kysely'
import { dialectOf } from './dialect-of.ts'
import { textResult, type AnyTables, type Dialect } from './dialect.ts'
import { RowNotFoundError } from '../errors.ts'
import { isDate } from './instant.ts'
import { translatingConflicts } from './transaction-conflict.ts'

/**
 * The maximum number of attempts to write a row that other transactions keep changing, which can only happen outside of
 * a transaction.
 */
const ROUNDS = 20

type Values = Readonly<Record<string, unknown>>

/** A condition on the row: a column has a given value or one of several values, or any SQL condition. */
export type Condition = readonly [column: string, operator: '=' | 'in', value: unknown] | RawBuilder<SqlBool>

/** A write to the row, and how to interpret a write that changed nothing. */
interface KeyedWrite<R> {
  /** @returns whether the row was written. */
  readonly write: () => Promise<boolean>
  readonly written: R
  /** The expression to read from the row if it was not written. */
  readonly look: () => RawBuilder<string | null>
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

/** The row of a user's table that has a given key. */
export class KeyedRow {
  readonly dialect: Dialect
  readonly db: Kysely<AnyTables>
  readonly table: string
  readonly key: Values
  readonly #where: string

  /**
   * @throws {UnsupportedTransactionError} when `db` is not a Kysely on a supported database.
   * @throws {InvalidOptionError} when the table has no name, or the key is empty or contains a value that is not plain.
   */
  constructor(where: string, db: object, table: string, key: unknown) {
    if (typeof table !== 'string' || table === '') {
      throw new InvalidOptionError(`${where}: expected the name of a table, not ${nameOf(table)}.`)
    }
    this.dialect = dialectOf(where, db)
    this.db = db as Kysely<AnyTables>
    this.table = table
    this.key = checkedKey(where, key)
    this.#where = where
  }

  /** The same row, with another handle of the same database. */
  on(db: object): KeyedRow {
    return new KeyedRow(this.#where, db, this.table, this.key)
  }

  /** For error messages: `orders (id = 'o1')` */
  get description(): string {
    const columns = Object.entries(this.key).map(([column, value]) => `${column} = ${formatted(value)}`)
    return `${oneLine(this.table, 130)} (${oneLine(columns.join(', '), 500)})`
  }

  /** The beginning of every error message. */
  get doing(): string {
    return `${this.#where}: ${this.description}`
  }

  update(set: Values, condition: Condition): Promise<boolean> {
    return this.#written(async () => {
      const query = narrowed(this.#keyed(this.db.updateTable(this.table).set(set)), condition)
      return (await query.executeTakeFirstOrThrow()).numUpdatedRows
    })
  }

  delete(condition: Condition): Promise<boolean> {
    return this.#written(async () => {
      const query = narrowed(this.#keyed(this.db.deleteFrom(this.table)), condition)
      return (await query.executeTakeFirstOrThrow()).numDeletedRows
    })
  }

  /**
   * Writes the row. If nothing was written, one further statement finds out why: it waits for a transaction that is
   * changing the row, and reads the committed row instead of an old snapshot. The result therefore describes the
   * current row, and stays true until the end of the transaction.
   */
  async settle<R>({ write, written, look, explain, missing }: KeyedWrite<R>): Promise<R> {
    for (let round = 1; round <= ROUNDS; round++) {
      if (await write()) return written
      const found = await this.#look(look())
      if (found === undefined && missing === undefined) throw this.notFound()
      const result = found === undefined ? await missing?.() : explain(found.found, round)
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

  /**
   * Reads the whole row as the user's Kysely returns it, and the expression `more`. With `locked`, reads the current
   * row and locks it until the end of the transaction.
   */
  async read(
    more: AliasedRawBuilder<unknown, string>,
    { locked }: { locked: boolean },
  ): Promise<Readonly<Record<string, unknown>>> {
    const query = this.#keyed(this.db.selectFrom(this.table).selectAll().select(more)).limit(2)
    const rows = await this.translated(() => (locked ? this.dialect.lock(query, 'update') : query).execute())
    if (rows.length > 1) throw this.#ambiguous()
    const [row] = rows
    if (row === undefined) throw this.notFound()
    return row
  }

  /** Runs other statements on the row, with conflicts translated to `TransactionConflictError`. */
  translated<R>(work: () => Promise<R>): Promise<R> {
    return translatingConflicts(() => this.doing, work)
  }

  async #look(look: RawBuilder<string | null>): Promise<{ found: string | null } | undefined> {
    const query = this.#keyed(this.db.selectFrom(this.table).select(look.as('found'))).limit(2)
    const rows = await this.translated(() => this.dialect.lock(query, 'no key update').execute())
    if (rows.length > 1) throw this.#ambiguous()
    const [row] = rows
    return row && { found: textResult(row.found) }
  }

  async #written(write: () => Promise<bigint>): Promise<boolean> {
    const count = await this.translated(write)
    if (count > 1n) throw this.#ambiguous()
    return count > 0n
  }

  #keyed<Q extends { where(column: string, operator: '=', value: unknown): Q }>(query: Q): Q {
    let narrowed = query
    for (const column of Object.keys(this.key)) narrowed = narrowed.where(column, '=', this.key[column])
    return narrowed
  }

  #ambiguous(): InvalidOptionError {
    return new InvalidOptionError(
      `${this.doing}: 'where' matches several rows; expected the columns of a unique key. Roll back your transaction. Without ` +
        'a transaction of your own, nothing was written.',
    )
  }
}

function narrowed<
  Q extends {
    where(column: string, operator: '=' | 'in', value: unknown): Q
    where(expression: RawBuilder<SqlBool>): Q
  },
>(query: Q, condition: Condition): Q {
  return 'toOperationNode' in condition ? query.where(condition) : query.where(...condition)
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
