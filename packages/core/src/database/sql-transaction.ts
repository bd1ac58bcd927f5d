import { InvalidOptionError } from '../errors/errors.ts'
import { nameOf } from '../text/name-of.ts'
import { propertyOf } from '../errors/property-of.ts'

const sqlTransactionKey: unique symbol = Symbol.for('txbox.sqlTransaction')
const identityKey: unique symbol = Symbol.for('txbox.sqlTransaction.identity')

/** The answer to a statement, as `pg` and many other libraries return it. */
export interface SqlAnswer {
  /** Objects with the names of the columns as they stand in the statement. Empty or absent for a write. */
  readonly rows?: readonly object[] | null | undefined
  /** The number of rows that a write changed. On MySQL and MariaDB, `affectedRows` of the library. */
  readonly rowCount?: number | bigint | null | undefined
}

/** Runs the statements of txbox in an open transaction of a library that txbox does not know. */
export interface SqlTransactionOptions {
  /** The name of the library in error messages. */
  readonly name: string
  /**
   * Runs one statement in the transaction.
   *
   * On PostgreSQL the statement has the parameters `$1`, `$2`, …; each value is a text, `null` or a `Buffer`, and the
   * server must determine the types. On MySQL and MariaDB the values are part of the text, and `values` is empty; MySQL
   * needs the statements as text (`COM_QUERY`), because it prepares no savepoints. A value in a row must be `null`, a text
   * or a `Buffer`. An error must carry the server's code: `code` (PostgreSQL's SQLSTATE) or `errno` (the number of MySQL
   * and MariaDB), in itself or in its `cause`.
   */
  query(text: string, values: readonly (string | Buffer | null)[]): PromiseLike<SqlAnswer>
  /**
   * Returns whether the library has not ended the transaction. Without this method, and in any case on MySQL and
   * MariaDB, the server is asked.
   */
  isOpen?(): boolean
  /**
   * Closes the connection at once, without waiting for an answer. Called when a signal aborts a transaction that txbox
   * has opened through your library while the handler is still running. Without this method, txbox waits for the handler
   * and rolls back then.
   */
  close?(): void
}

/** An open transaction of any library that can run SQL; see {@link sqlTransaction}. */
export interface SqlTransaction extends SqlTransactionOptions {
  readonly [sqlTransactionKey]: true
}

/**
 * Makes an open transaction of any library usable for txbox: pass the result as `tx`. The handler of `inbox.process`
 * receives the same object; the library's own transaction is in its closure.
 *
 * ```ts
 * await inbox.process(sqlTransaction({ name: 'mine', query: (text, values) => trx.raw(text, values) }), message, handler)
 * ```
 *
 * txbox cannot see what the library sends, so it asks the server once when a handler has returned. On MySQL and
 * MariaDB txbox also asks before and after it writes, and marks the transaction with a savepoint before the handler: some
 * five more statements for a message. Wrap a transaction once if several handlers run in it at the same time.
 *
 * @throws {InvalidOptionError} for a missing name, or a `query`, `isOpen` or `close` that is not a function.
 */
export function sqlTransaction(options: SqlTransactionOptions): SqlTransaction {
  const { name, query, isOpen, close } = Object(options) as Partial<SqlTransactionOptions>
  if (typeof name !== 'string' || name === '') {
    throw new InvalidOptionError(`sqlTransaction: 'name' must be a text, not ${nameOf(name)}.`)
  }
  if (typeof query !== 'function') {
    throw new InvalidOptionError(`sqlTransaction(${name}): 'query' must be a function, not ${nameOf(query)}.`)
  }
  for (const [option, value] of Object.entries({ isOpen, close })) {
    if (value === undefined || typeof value === 'function') continue
    throw new InvalidOptionError(
      `sqlTransaction(${name}): '${option}' must be a function, not ${nameOf(value)}.`,
    )
  }
  const transaction: SqlTransaction = {
    name,
    query: (text, values) => options.query(text, values),
    ...(isOpen !== undefined && { isOpen: () => options.isOpen!() }),
    ...(close !== undefined && { close: () => options.close!() }),
    [sqlTransactionKey]: true,
  }
  return Object.freeze(Object.assign(transaction, { [identityKey]: {} }))
}

/**
 * Returns whether this is a result of `sqlTransaction`, also of another copy of this package, or a proxy of one, whose
 * target may be a function.
 */
export function isSqlTransaction(value: unknown): value is SqlTransaction {
  return propertyOf(value, sqlTransactionKey) === true
}

/** Returns an object that stands for this transaction alone: a handle may be a proxy that several transactions share. */
export function identityOf(transaction: SqlTransaction): object {
  const identity: unknown = Reflect.get(transaction, identityKey)
  return typeof identity === 'object' && identity !== null ? identity : transaction
}
