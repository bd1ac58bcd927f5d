import type { IsolationLevel } from '../ports/transact-options.ts'
import { InvalidOptionError } from '../errors/errors.ts'
import { oneLine } from '../text/one-line.ts'
import { nameOf } from '../text/name-of.ts'
import { propertyOf } from '../errors/property-of.ts'

/**
 * The types of libraries that txbox does not know by itself. Extend this interface by module augmentation, of `txbox` or
 * of `@txbox/core`, and pass the library in the option `libraries` of `postgres()` or `mysql()`:
 *
 * ```ts
 * declare module 'txbox' {
 *   interface TransactionLibraries {
 *     mine: { tx: MyTransaction; root: MyDatabase }
 *   }
 * }
 * ```
 *
 * `tx` is the type of an open transaction. `root` is the type that the option `db` accepts; leave `root` out for a
 * library whose transactions alone are used.
 */
// oxlint-disable-next-line typescript/no-empty-object-type -- users add properties
export interface TransactionLibraries {}

/**
 * Describes how to reach the driver's connection in the transactions of a library, such as an ORM. txbox then runs its
 * statements on that connection, with everything that it guarantees for the driver.
 *
 * A handle may be a proxy of a transaction, as dependency injection frameworks pass it. Read its properties, and do not
 * use `in`, `instanceof` or a WeakMap with the handle as the key.
 *
 * @typeParam H an open transaction.
 * @typeParam R a root: the object that opens transactions.
 */
export interface TransactionLibrary<H = unknown, R = unknown> {
  /** The name of the library in error messages. */
  readonly name: string
  /**
   * Returns whether this is a transaction of the library, or something of the library that users pass by mistake, such
   * as the root. Must not throw, whatever the value is.
   */
  recognises(handle: unknown): handle is H
  /**
   * Returns the driver's connection, or the transaction of another library that txbox knows, or a promise of one of
   * them; `undefined` if no transaction is open. Must not send anything to the server.
   */
  connectionOf(handle: H): unknown
  /**
   * Returns whether the transaction is still open as far as the library knows. txbox calls this method in the tick in
   * which it sends each statement, and again when a handler has returned. Leave the method out if the library does not
   * know.
   */
  isOpen?(handle: H): boolean
  /** How to use the library's root as the option `db`. Without it, only transactions can be passed to txbox. */
  readonly root?: TransactionLibraryRoot<H, R> | undefined
}

/** How to use the root of a library as the option `db`: for `inbox.run`, the relay and all other features. */
export interface TransactionLibraryRoot<H = unknown, R = unknown> {
  /** Returns whether this is a root of the library. Must not throw, whatever the value is. */
  recognises(root: unknown): root is R
  /**
   * Returns the driver's pool, or the root of another library that txbox knows, or a promise of one of them. txbox calls
   * this method whenever it needs the pool, and not when the database object is created, since some libraries create
   * their pool later. `undefined` if there is no pool yet. Either `poolOf` or `borrow` must be present for the relay,
   * the garbage collector and `migrate`.
   */
  poolOf?(root: R): unknown
  /** Takes a driver's connection from the library. For libraries that hide the driver's pool. */
  borrow?(root: R): Promise<BorrowedConnection>
  /** Returns the maximum number of connections that the root opens, if the library reports it. */
  maxConnections?(root: R): number | undefined
  /**
   * Runs one transaction: COMMIT when `work` returns, ROLLBACK when it throws; an error of `work` is rethrown. Without
   * `isolation`, the server's default level applies.
   */
  transact<T>(root: R, work: (tx: H) => Promise<T>, isolation: IsolationLevel | undefined): Promise<T>
}

/** A driver's connection that a library has lent to txbox. */
export interface BorrowedConnection {
  readonly connection: unknown
  /** Gives the connection back. If `broken` is true, the connection must not be used again. */
  giveBack(broken: boolean): unknown
}

/**
 * Checks and returns the description of a library, for the option `libraries` of `postgres()` and `mysql()`.
 *
 * @throws {InvalidOptionError} when a part is missing or is not a function.
 */
export function defineLibrary<H, R>(library: TransactionLibrary<H, R>): TransactionLibrary<H, R> {
  const name: unknown = propertyOf(library, 'name')
  if (typeof name !== 'string' || name === '') {
    throw new InvalidOptionError(`defineLibrary: 'name' must be a text, not ${nameOf(name)}.`)
  }
  const check = (part: unknown, prefix: string, names: readonly string[], isRequired: boolean): void => {
    for (const each of names) {
      const value = propertyOf(part, each)
      if (typeof value === 'function' || (!isRequired && value === undefined)) continue
      throw new InvalidOptionError(
        `defineLibrary(${oneLine(name)}): '${prefix}${each}' must be a function, not ${nameOf(value)}.`,
      )
    }
  }
  check(library, '', ['recognises', 'connectionOf'], true)
  check(library, '', ['isOpen'], false)
  if (library.root !== undefined) {
    check(library.root, 'root.', ['recognises', 'transact'], true)
    check(library.root, 'root.', ['poolOf', 'borrow', 'maxConnections'], false)
  }
  return library
}
