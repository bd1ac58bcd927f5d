import type { TransactionLibrary } from '@txbox/core'
import type { ExtraRoundTrips, Isolation, Row } from '../support/engines/target.ts'
import { load as loadNewest } from './newest/load.ts'
import { load as loadOldest } from './oldest/load.ts'

/** How a test opens a root of a library. */
export interface LibraryOptions {
  readonly url: string
  readonly engine: 'postgres' | 'mysql' | 'mariadb'
  /** The most connections. */
  readonly max: number
  /** The level of all transactions. `undefined`: the server's default. */
  readonly isolation: Isolation | undefined
  /** The database of a project on PGlite, which all roots share. */
  readonly pglite?: object | undefined
}

/** Imports a package in the version under test. */
export type Load = (specifier: string) => Promise<unknown>

/** A root of a library on one database. */
export interface LibraryRoot {
  /** What users pass as `db`. */
  readonly db: object
  /** The option `libraries`. */
  readonly libraries?: readonly TransactionLibrary[]
  /** Connects, for libraries whose roots do not connect by themselves. */
  ready?(): Promise<void>
  /** Runs one transaction as users of the library do: COMMIT when `work` returns, ROLLBACK when it throws. */
  transact<T>(work: (tx: object) => Promise<T>): Promise<T>
  close(): Promise<void>
}

/** A library whose transactions txbox must take. */
export interface LibraryUnderTest {
  readonly name: string
  /** What txbox finds under the library's transactions. 'hidden': nothing of the connection can be seen. */
  readonly driver: 'kysely' | 'pg' | 'mysql2' | 'hidden'
  readonly open: (options: LibraryOptions) => LibraryRoot
  /** Runs SQL through the library's own API in a transaction. Parameters are `$1` on PostgreSQL, and `?` elsewhere. */
  readonly exec: (tx: object, sql: string, parameters: readonly unknown[]) => Promise<readonly Row[]>
  /** Runs `work` in a savepoint, as users of the library do; a throw rolls back to the savepoint. */
  readonly nested: (tx: object, work: (tx: object) => Promise<void>) => Promise<void>
  /**
   * Adds 1 to a row of the table `counters` by the library's API for models, for a library whose models report a conflict
   * in another way than its SQL.
   */
  readonly incrementByModel?: (tx: object, name: string) => Promise<void>
  /**
   * Handles that are no open transaction, as users come by them, by name: roots, pools, connections. An ended
   * transaction is tested for every library.
   */
  readonly stray?: Readonly<Record<string, (root: LibraryRoot) => object>>
  /** The same for handles that exist only during a call, or must be given back, such as a task or a connection. */
  readonly strayDuring?: Readonly<
    Record<string, (root: LibraryRoot, use: (handle: object) => Promise<void>) => Promise<void>>
  >
  /**
   * Nothing tells a handle that was kept after its transaction from the connection itself, so that txbox works in the
   * transaction that is open there by then. @default false
   */
  readonly keptHandleJoins?: boolean
  /** What the root can be used for. `'run'`: `inbox.run` and `database.transact`; `'all'`: also the relay and migrate. */
  readonly rootFor: 'all' | 'run'
  /** `run` sends BEGIN and the claim together. @default false */
  readonly joinsBegin?: boolean
  /** A defect of the library in this version: a BEGIN that fails leaves its connection taken. @default false */
  readonly losesConnectionAtBegin?: boolean
  /** The library hides its connection, so that a handler that hangs cannot be given up. */
  readonly hidesConnection?: boolean
  /** A defect of the library: COMMIT or ROLLBACK on a connection that has broken ends the process. @default false */
  readonly endsProcessWhenBroken?: boolean
  /** txbox does not let the server end transactions that are idle, because more would end with them. @default false */
  readonly keepsIdleTransactions?: boolean
  /**
   * Whether a handler can recover by savepoints that it sends as SQL. postgres.js fails a transaction in which a
   * statement has failed, unless in a savepoint of its own. @default true
   */
  readonly takesSavepoints?: boolean
  /** The library itself refuses BEGIN as SQL. @default false */
  readonly refusesBegin?: boolean
  /**
   * A defect of the library: a COMMIT that the server refuses, with the transaction still open, leaves its connection
   * taken, or in the pool with that transaction. @default false
   */
  readonly losesConnectionAtCommit?: boolean
  /** A defect of the library: a connection that breaks in a transaction stays taken. @default false */
  readonly losesBrokenConnection?: boolean
  /**
   * When a connection has broken in a transaction, the library ends the transaction, so that txbox may only learn that no
   * transaction is open. @default false
   */
  readonly hidesBrokenConnection?: boolean
  /** Round trips beside those of a driver that shows its state. @default one after a handler if nothing is shown */
  readonly extraRoundTrips?: ExtraRoundTrips
  /**
   * A defect of the library: a connection whose COMMIT was refused goes back to the pool in the failed transaction, where
   * the next BEGIN fails, too. @default false
   */
  readonly keepsRefusedCommit?: boolean
}

/** What the module of a library exports: `test/libraries/<library>.ts`. */
export interface LibraryModule {
  libraryUnderTest(
    load: Load,
    engine: LibraryOptions['engine'],
    version: 'newest' | 'oldest',
  ): Promise<LibraryUnderTest>
}

/** Imports a library by its name in `vitest.config.ts`, such as 'drizzle' or 'drizzle@oldest'. */
export async function importLibrary(
  nameInConfig: string,
  engine: LibraryOptions['engine'],
): Promise<LibraryUnderTest> {
  const [file, version = 'newest'] = nameInConfig.split('@')
  const module = (await import(/* @vite-ignore */ `./${file!}.ts`)) as LibraryModule
  return version === 'newest'
    ? module.libraryUnderTest(loadNewest, engine, version)
    : module.libraryUnderTest(loadOldest, engine, 'oldest')
}
