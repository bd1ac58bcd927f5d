import { InvalidOptionError, TransactionConflictError, nameOf, oneLine } from '@txbox/core'
import type { AliasedRawBuilder, Kysely, RawBuilder, SqlBool } from 'kysely'
import { cameBackAs, dialectOf, type AnyTables, type Dialect } from './dialect.ts'
import { RowNotFoundError } from './errors.ts'
import { isDate } from './instant.ts'
import { translatingConflicts } from './transaction-conflict.ts'

/** How often a row is looked at again when others change it in between, which only happens outside a transaction. */
const ROUNDS = 20

type Values = Readonly<Record<string, unknown>>

/** What must be true of the row: a column that has a value, or one of several, or anything in SQL. */
export type Condition = readonly [column: string, operator: '=' | 'in', value: unknown] | RawBuilder<SqlBool>

/** One write on the row, and what to make of it when it wrote nothing. */
export interface Attempt<R> {
  /** → whether the row was written. */
  readonly write: () => Promise<boolean>
  readonly written: R
  /** What to look at when it was not. */
  readonly look: () => RawBuilder<string | null>
  /** Says what it means, or throws; `undefined`: the row has changed meanwhile, so write again. */
  readonly explain: (found: string | null, round: number) => R | undefined
  /** Says what it means that there is no row, or throws; `undefined`: write again. @default RowNotFoundError */
  readonly missing?: (() => Promise<R | undefined>) | undefined
}

/** The row of a user's table that is named by a key. */
export class KeyedRow {
  readonly dialect: Dialect
  readonly db: Kysely<AnyTables>
  readonly table: string
  readonly key: Values
  readonly #where: string

  /**
   * @throws {UnsupportedTransactionError} when `db` is no Kysely of a database that is supported.
   * @throws {InvalidOptionError} when the table has no name, or the key is empty or holds anything but plain values.
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

  /** The same row, reached through another handle of the same database. */
  on(db: object): KeyedRow {
    return new KeyedRow(this.#where, db, this.table, this.key)
  }

  /** For messages: `orders (id = 'o1')` */
  get description(): string {
    const columns = Object.entries(this.key).map(([column, value]) => `${column} = ${shown(value)}`)
    return `${oneLine(this.table, 130)} (${oneLine(columns.join(', '), 500)})`
  }

  /** What starts every message. */
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
   * Writes; where nothing was written, one further statement tells why. It waits for whoever is changing the row, and
   * reads what is committed, not what a snapshot shows, so that the answer is true of the row as it is, and stays so up
   * to the end of the transaction.
   */
  async settle<R>({ write, written, look, explain, missing }: Attempt<R>): Promise<R> {
    for (let round = 1; round <= ROUNDS; round++) {
      if (await write()) return written
      const found = await this.#look(look())
      if (found === undefined && missing === undefined) throw this.notFound()
      const told = found === undefined ? await missing?.() : explain(found.found, round)
      if (told !== undefined) return told
    }
    throw new TransactionConflictError(
      `${this.doing} matches and is not written after ${ROUNDS} attempts: others keep changing it, or a trigger or a policy of ` +
        'the table prevents it. Run it again in a transaction.',
    )
  }

  notFound(): RowNotFoundError {
    return new RowNotFoundError(
      `${this.doing}: there is no such row. Nothing was written. Create it first, or check the key.`,
      { table: this.table },
    )
  }

  /**
   * The whole row as the user's Kysely gives it, and `more`. `locked`: as it is now, and nobody changes it up to the
   * end.
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

  /** For statements of a kind of their own. */
  translated<R>(work: () => Promise<R>): Promise<R> {
    return translatingConflicts(() => this.doing, work)
  }

  async #look(look: RawBuilder<string | null>): Promise<{ found: string | null } | undefined> {
    const query = this.#keyed(this.db.selectFrom(this.table).select(look.as('found'))).limit(2)
    const rows = await this.translated(() => this.dialect.lock(query, 'no key update').execute())
    if (rows.length > 1) throw this.#ambiguous()
    const [row] = rows
    return row && { found: cameBackAs(row.found) }
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
      `${this.doing}: 'where' matches several rows. Expected the columns of a unique key. Roll back your transaction; ` +
        'outside of one nothing was written.',
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
 * Only plain values: drivers turn objects and lists into SQL of their own (`{ id: { id: 1 } }`, as it may stand in a
 * request's body, would match every row on MySQL), and an expression can match anything.
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
        `${where}: 'where' must give '${oneLine(column)}' a text, number, bigint, boolean, Date or bytes, not ${nameOf(value)}. Nothing ` +
          'was written.',
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

/** Short: it is there to find the row by. */
function shown(value: unknown): string {
  if (value instanceof Uint8Array) return `${value.byteLength} bytes`
  const text = isDate(value) ? value.toISOString() : String(value)
  const short = text.length > 60 ? `${text.slice(0, 60)}…` : text
  return typeof value === 'string' ? `'${short}'` : short
}
