import {
  InvalidOptionError,
  NotInTransactionError,
  UnsupportedTransactionError,
  portsKey,
  type TransactionLibrary,
} from '@txbox/core'
import { types } from 'node:util'
import { nameOf, propertyOf, type OptionChecker } from '@txbox/core/internal'
import type { Awaitable, DriverAdapter, Engine, Resolved } from '../adapters.ts'
import type { RootAdapter } from '../root-adapter.ts'
import { assertEngine } from './assert-engine.ts'
import { kyselyHandle } from '../drivers/kysely.ts'
import { kyselyRoot } from '../drivers/kysely-root.ts'
import { mariadbHandle, mariadbRoot } from '../drivers/mariadb.ts'
import { mysql2Handle, mysql2Root } from '../drivers/mysql2.ts'
import { pgHandle } from '../drivers/pg.ts'
import { pgRoot } from '../drivers/pg-root.ts'
import { sqlTransactionOn } from '../drivers/sql-transaction.ts'
import { drizzle } from '../libraries/drizzle.ts'
import { LibraryRoot } from './library-root.ts'
import { pgPromise } from '../libraries/pg-promise.ts'
import { prisma, prismaOn } from '../drivers/prisma.ts'
import { pgPromiseHandle } from '../drivers/pg-promise.ts'
import { pgliteHandle, pgliteRoot } from '../drivers/pglite.ts'
import { postgresJsHandle, postgresJsRoot } from '../drivers/postgres-js.ts'
import { knex } from '../libraries/knex.ts'
import { mikroorm } from '../libraries/mikroorm.ts'
import { neonHttp } from '../libraries/neon-http.ts'
import { sequelize } from '../libraries/sequelize.ts'
import { typeorm } from '../libraries/typeorm.ts'
import { hasFunction, membersOf } from '../members.ts'

const DRIVERS = {
  postgres: [
    sqlTransactionOn('postgres'),
    kyselyHandle,
    postgresJsHandle,
    pgliteHandle,
    pgPromiseHandle,
    pgHandle,
    prismaOn('postgres'),
  ],
  // A connection of mariadb also has everything that identifies one of mysql2, so mariadb is tried first.
  mysql: [sqlTransactionOn('mysql'), kyselyHandle, mariadbHandle, mysql2Handle, prismaOn('mysql')],
} as unknown as Readonly<Record<Engine, readonly DriverAdapter[]>>
const ROOTS = {
  postgres: [kyselyRoot, postgresJsRoot, pgliteRoot, pgRoot],
  mysql: [kyselyRoot, mariadbRoot, mysql2Root],
} as unknown as Readonly<Record<Engine, readonly RootAdapter[]>>

/** Libraries are tried before the drivers: some of their objects look like those of a driver. */
const LIBRARIES: readonly TransactionLibrary[] = [
  // Before Drizzle, which may be used on top of it.
  neonHttp,
  drizzle,
  knex,
  mikroorm,
  pgPromise,
  prisma,
  sequelize,
  typeorm,
]

const EXPECTED: Record<Engine, { readonly handle: string; readonly root: string }> = {
  postgres: { handle: 'a connected pg client after BEGIN', root: 'a pg.Pool' },
  mysql: {
    handle: 'a mysql2 connection after beginTransaction()',
    root: 'a mysql2 promise pool (of a callback pool: pool.promise())',
  },
}
const SUPPORTED: Record<Engine, string> = {
  postgres:
    'an open transaction of Kysely, Drizzle, Knex, TypeORM, Sequelize, MikroORM, Prisma, postgres.js, pg-promise or PGlite',
  mysql: 'an open transaction of Kysely, Drizzle, Knex, TypeORM, Sequelize, MikroORM, Prisma or mariadb',
}

/**
 * The maximum number of levels: a transaction of one library may contain a transaction of another library, which
 * contains a driver's connection.
 */
const MAX_LEVELS = 4

/** @throws {InvalidOptionError} when the option `libraries` is not a list of libraries. */
export function resolverOption(check: OptionChecker, engine: Engine): Resolver {
  return new Resolver(
    engine,
    check.list('libraries', isLibrary, 'a list of libraries made with defineLibrary'),
  )
}

function isLibrary(value: unknown): value is TransactionLibrary {
  return hasFunction(value, 'recognises') && hasFunction(value, 'connectionOf')
}

/** Finds the driver under the transactions and roots of all libraries that a database object knows. */
export class Resolver {
  readonly #engine: Engine
  readonly #own: readonly TransactionLibrary[]
  /**
   * The classes of connections and transactions that were recognized before. To ask a connection for the members of all
   * libraries each time took a third of the CPU time of txbox's own code in `process` (measured).
   */
  readonly #drivers = new WeakMap<object, DriverAdapter>()
  readonly #libraries = new WeakMap<object, TransactionLibrary>()

  /** @param own libraries that the user has defined. They are tried before the libraries that txbox knows. */
  constructor(engine: Engine, own: readonly TransactionLibrary[] = []) {
    this.#engine = engine
    this.#own = own
  }

  /**
   * Finds the connection of a transaction. Sends nothing to the server.
   *
   * @throws {UnsupportedTransactionError} when the handle belongs to no known library, or to another kind of database.
   * @throws {NotInTransactionError} when the library reports that no transaction is open.
   */
  transaction(handle: unknown): Awaitable<Resolved> {
    const library = this.#libraryOf(handle)
    if (library !== undefined) return this.#within(library, handle)
    // No promise, whether or not the class of the connection is known: the calls of one tick keep their order.
    const driver = this.#driverOf(handle)
    if (driver === undefined) throw this.#unsupported(handle, handle, [])
    assertEngine({ driver, connection: handle, name: driver.name }, this.#engine)
    return { driver, connection: handle, name: driver.name, isOpen: alwaysOpen, settled: undefined }
  }

  async #within(first: TransactionLibrary, handle: unknown): Promise<Resolved> {
    const names: string[] = []
    let isOpen = alwaysOpen
    let at = handle
    let next: TransactionLibrary | undefined = first
    for (let level = 0; level < MAX_LEVELS && next !== undefined; level++) {
      const held = at
      const library = next
      names.push(library.name)
      const isOpenAbove = isOpen
      if (library.isOpen !== undefined) isOpen = () => isOpenAbove() && library.isOpen!(held)
      at = await library.connectionOf(held)
      if (at === undefined || at === null || !isOpen()) throw notOpen(library.name)
      next = this.#libraryOf(at)
    }
    const driver = this.#driverOf(at)
    if (driver === undefined) throw this.#unsupported(handle, at, names)
    assertEngine({ driver, connection: at, name: first.name }, this.#engine)
    return { driver, connection: at, name: first.name, isOpen, settled }
  }

  #libraryOf(handle: unknown): TransactionLibrary | undefined {
    const own = this.#own.find((each) => each.recognises(handle))
    const itsClass = classOf(handle)
    if (own !== undefined || knownIn(this.#drivers, itsClass, handle) !== undefined) return own
    const known = knownIn(this.#libraries, itsClass, handle)
    if (known !== undefined) return known
    const library = LIBRARIES.find((each) => each.recognises(handle))
    if (library !== undefined && itsClass !== undefined) this.#libraries.set(itsClass, library)
    return library
  }

  #driverOf(connection: unknown): DriverAdapter | undefined {
    const itsClass = classOf(connection)
    const known = knownIn(this.#drivers, itsClass, connection)
    if (known !== undefined) return known
    const driver = DRIVERS[this.#engine].find((each) => each.recognises(connection))
    if (driver !== undefined && itsClass !== undefined) this.#drivers.set(itsClass, driver)
    return driver
  }

  /** @throws {InvalidOptionError} when no adapter recognizes the root. */
  root(where: string, root: unknown): RootAdapter {
    const adapter = this.#rootOf(root)
    if (adapter !== undefined) return adapter
    const isDatabase = propertyOf(root, portsKey) !== undefined
    throw new InvalidOptionError(
      `${where}: 'db' must be ${EXPECTED[this.#engine].root}, or the root of a library such as Kysely, Drizzle, Knex, TypeORM, ` +
        `Sequelize, MikroORM or Prisma, not ${isDatabase ? 'a database of txbox' : nameOf(root)}. Pass the root itself, not a ` +
        'transaction, a single client, or the result of postgres() or mysql(). For another library see defineLibrary.',
    )
  }

  #rootOf(root: unknown): RootAdapter | undefined {
    const library = [...this.#own, ...LIBRARIES].find((each) => each.root?.recognises(root) === true)
    if (library !== undefined) {
      return new LibraryRoot(library, root, {
        rootOf: (pool) => this.#rootOf(pool),
        isOfDriver: (value) => this.#driverOf(value) !== undefined,
        transaction: (handle) => this.transaction(handle),
      })
    }
    return ROOTS[this.#engine].find((each) => each.recognises(root))
  }

  #unsupported(handle: unknown, at: unknown, names: readonly string[]): UnsupportedTransactionError {
    const { handle: expected } = EXPECTED[this.#engine]
    return new UnsupportedTransactionError(
      names.length === 0
        ? `Expected an open transaction, not ${nameOf(handle)}${membersOf(handle)}. Pass ${SUPPORTED[this.#engine]}, or ${expected}. For ` +
            'another library, wrap its transaction in sqlTransaction, or describe the library with defineLibrary. Nothing ' +
            'was written.'
        : `The connection of this ${names[0]!} transaction is ${nameOf(at)}${membersOf(at)}, not ${expected}. Check that the ` +
            'library is connected to the same kind of database as txbox, or wrap the transaction in sqlTransaction, or describe ' +
            'the library with defineLibrary. Nothing was written.',
    )
  }
}

/**
 * Returns the prototype of an instance of a class; `undefined` for a plain object or a function, whose members are its
 * own, and for a proxy, which may stand for something else the next time.
 */
function classOf(value: unknown): object | undefined {
  if (typeof value !== 'object' || value === null || types.isProxy(value)) return undefined
  const prototype: unknown = Object.getPrototypeOf(value)
  const isOfClass = prototype !== null && Object.getPrototypeOf(prototype) !== null
  return isOfClass ? prototype : undefined
}

function knownIn<K extends Pick<TransactionLibrary, 'recognises'>>(
  known: WeakMap<object, K>,
  itsClass: object | undefined,
  value: unknown,
): K | undefined {
  const found = itsClass === undefined ? undefined : known.get(itsClass)
  return found?.recognises(value) === true ? found : undefined
}

function alwaysOpen(): boolean {
  return true
}

/**
 * A library such as Sequelize sends a statement, and its COMMIT as well, only some promises after the call. A callback of
 * `process.nextTick` runs when no promise can go on without an answer from outside: by then a statement that was not awaited
 * has been sent on the connection, where txbox sees it. A turn of the event loop (`setImmediate`) would ask the system for
 * answers first.
 */
function settled(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve))
}

function notOpen(name: string): NotInTransactionError {
  return new NotInTransactionError(
    `Expected an open transaction, but this ${name} handle has none. Pass the transaction, and not the pool or root, and ` +
      'await every call of txbox before the transaction ends. Nothing was written.',
  )
}

/** Returns an object that identifies the resolved connection, even if the handle is a proxy. */
export function connectionIdentity({ driver, connection }: Pick<Resolved, 'driver' | 'connection'>): object {
  return driver.identityOf?.(connection) ?? (connection as object)
}
