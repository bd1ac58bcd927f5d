import { sql, type AliasedRawBuilder, type Kysely, type RawBuilder, type SqlBool } from 'kysely'
import { dialectOf } from './dialect-of.ts'
import { textResult, type AnyTables, type Dialect } from './dialect.ts'
import { RowByKey } from '../rules/row-by-key.ts'
import { translatingConflicts } from './transaction-conflict.ts'

type Values = Readonly<Record<string, unknown>>

/** A condition on the row: a column has a given value or one of several values, or any SQL condition. */
export type Condition = readonly [column: string, operator: '=' | 'in', value: unknown] | RawBuilder<SqlBool>

/** The row of a user's table that has a given key. */
export class KeyedRow extends RowByKey<RawBuilder<string | null>> {
  readonly dialect: Dialect
  readonly db: Kysely<AnyTables>

  /**
   * @throws {UnsupportedTransactionError} when `db` is not a Kysely on a supported database.
   * @throws {InvalidOptionError} when the table has no name, or the key is empty or contains a value that is not plain.
   */
  constructor(where: string, db: object, table: string, key: unknown) {
    super(where, table, key)
    this.dialect = dialectOf(where, db)
    this.db = db as Kysely<AnyTables>
  }

  /** The same row, with another handle of the same database. */
  on(db: object): KeyedRow {
    return new KeyedRow(this.where, db, this.table, this.key)
  }

  /**
   * Updates the row, and returns the value that the version column has afterwards, if the database returns it: a trigger may have
   * changed the version.
   */
  async updateVersion(
    set: Values,
    column: string,
    condition: Condition,
  ): Promise<{ written: boolean; found: string | null | undefined }> {
    if (!this.dialect.returns) return { written: await this.update(set, condition), found: undefined }
    const query = narrowed(this.#keyed(this.db.updateTable(this.table).set(set)), condition)
    const found = this.dialect.textOf(sql.ref(column)).as('found')
    const rows = await this.translated(() => query.returning(found).execute())
    if (rows.length > 1) throw this.ambiguous()
    return { written: rows.length > 0, found: rows[0] && textResult(rows[0].found) }
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
   * Reads the whole row as the user's Kysely returns it, and the expression `more`. With `locked`, reads the current
   * row and locks it until the end of the transaction.
   */
  async read(
    more: AliasedRawBuilder<unknown, string>,
    { locked }: { locked: boolean },
  ): Promise<Readonly<Record<string, unknown>>> {
    const query = this.#keyed(this.db.selectFrom(this.table).selectAll().select(more)).limit(2)
    const rows = await this.translated(() => (locked ? this.dialect.lock(query, 'update') : query).execute())
    if (rows.length > 1) throw this.ambiguous()
    const [row] = rows
    if (row === undefined) throw this.notFound()
    return row
  }

  /** Runs other statements on the row, with conflicts translated to `TransactionConflictError`. */
  translated<R>(work: () => Promise<R>): Promise<R> {
    return translatingConflicts(() => this.doing, work)
  }

  protected async look(look: RawBuilder<string | null>): Promise<readonly (string | null)[]> {
    const query = this.#keyed(this.db.selectFrom(this.table).select(look.as('found'))).limit(2)
    const rows = await this.translated(() => this.dialect.lock(query, 'no key update').execute())
    return rows.map(({ found }) => textResult(found))
  }

  async #written(write: () => Promise<bigint>): Promise<boolean> {
    const count = await this.translated(write)
    if (count > 1n) throw this.ambiguous()
    return count > 0n
  }

  #keyed<Q extends { where(column: string, operator: '=', value: unknown): Q }>(query: Q): Q {
    let narrowed = query
    for (const column of Object.keys(this.key)) narrowed = narrowed.where(column, '=', this.key[column])
    return narrowed
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
