/*
 * The types that a caller may pass as an open transaction, recognized by their structure. No library's types are
 * imported, because types of a library that is not installed would silently become `any`. Where types distinguish a
 * pool or a root from a transaction, passing a pool or a root does not compile. They cannot do so for `dataSource.manager`
 * of TypeORM and `orm.em` of MikroORM, which have the types of transactions: txbox refuses these at run time.
 */
// oxlint-disable typescript/no-unsafe-function-type -- only that a member is a function matters
import type { SqlTransaction } from './sql-transaction.ts'
import type { TransactionLibraries } from './transaction-library.ts'

export interface KyselyTransactionLike {
  readonly isTransaction: true
  getExecutor(): unknown
}
/** A client of `pg`, and of Neon's driver. */
export interface PgClientLike {
  query(sql: string, values?: unknown[]): Promise<unknown>
  escapeIdentifier(s: string): string
  readonly totalCount?: never
}
export interface Mysql2ConnectionLike {
  execute: Function
  beginTransaction: Function
  threadId: unknown
  readonly getConnection?: never
  /** A connection of the `mariadb` connector has this method. */
  readonly batch?: never
}
export interface MariadbConnectionLike {
  beginTransaction: Function
  batch: Function
  queryStream: Function
  readonly getConnection?: never
}
export interface DrizzleTransactionLike {
  execute: Function
  transaction: Function
  rollback(): never
}
/** A transaction of Knex, and so of Objection. */
export interface KnexTransactionLike {
  raw: Function
  isCompleted: Function
  readonly executionPromise: unknown
}
/** An `EntityManager`, as TypeORM passes it to the callback of a transaction. */
export interface TypeormEntityManagerLike {
  query: Function
  save: Function
  readonly queryRunner?: object | undefined
  /** A repository has this property. */
  readonly manager?: never
}
export interface TypeormQueryRunnerLike {
  connect: Function
  startTransaction: Function
  readonly isTransactionActive: boolean
}
/** A transaction of Sequelize 6 or 7. */
export interface SequelizeTransactionLike {
  commit: Function
  afterCommit: Function
  readonly LOCK: object
}
/** An `EntityManager`, as MikroORM passes it to the callback of `transactional`. */
export interface MikroormEntityManagerLike {
  getTransactionContext: Function
  isInTransaction: Function
}
/** A `Prisma.TransactionClient` since Prisma 7.8: unlike earlier ones, it has `$transaction`, as the root has. */
export interface PrismaTransactionLike {
  $queryRaw: Function
  $queryRawUnsafe: Function
  $executeRawUnsafe: Function
  $transaction: Function
  readonly $connect?: never
}
/** A `TransactionSql` of postgres.js. A transaction of Bun.sql has no `typed`. */
export interface PostgresjsTransactionLike {
  unsafe: Function
  savepoint: Function
  typed: Function
}
export interface PgliteTransactionLike {
  exec: Function
  rollback: Function
  readonly closed: boolean
}
export interface PgPromiseTaskLike {
  oneOrNone: Function
  readonly ctx: { readonly inTransaction: boolean }
}

type Declared = TransactionLibraries[keyof TransactionLibraries]
// These types distribute over the declared libraries: without a declaration they are `never`, which accepts nothing.
type TransactionIn<L> = L extends { tx: infer Tx } ? Tx : never
type RootIn<L> = L extends { root: infer Root } ? Root : never
type TransactionByRoot<L, D> = L extends { tx: infer Tx; root: infer Root }
  ? [D] extends [Root]
    ? Tx
    : never
  : never

type KnownTransaction =
  | KyselyTransactionLike
  | PgClientLike
  | Mysql2ConnectionLike
  | MariadbConnectionLike
  | DrizzleTransactionLike
  | KnexTransactionLike
  | TypeormEntityManagerLike
  | TypeormQueryRunnerLike
  | SequelizeTransactionLike
  | MikroormEntityManagerLike
  | PrismaTransactionLike
  | PostgresjsTransactionLike
  | PgliteTransactionLike
  | PgPromiseTaskLike
  | SqlTransaction

/** An open transaction of a library that txbox knows, or that `TransactionLibraries` declares. */
// oxlint-disable-next-line typescript/no-redundant-type-constituents -- `never` until a user declares a library
export type TransactionHandle = KnownTransaction | TransactionIn<Declared>

/** Some transactions have these members, too: a type must be compared with the known transactions first. */
type PoolOrRoot =
  // mysql2 and mariadb
  | { getConnection: unknown }
  // pg.Pool
  | { totalCount: unknown }
  // Kysely
  | { isTransaction: unknown; getExecutor: unknown }
  // Drizzle
  | { execute: Function; transaction: Function }
  // Knex
  | { transactionProvider: unknown }
  // TypeORM
  | { createQueryRunner: unknown }
  // Sequelize
  | { authenticate: unknown; define: unknown }
  // Prisma
  | { $connect: unknown }
  | { $transaction: unknown }
  // postgres.js and Bun.sql, whose transactions have these members, too
  | { begin: unknown; reserve: unknown; savepoint?: never }
  // PGlite
  | { waitReady: unknown }
  // pg-promise
  | { $pool: unknown }

/** A transaction that users declare counts even if it resembles a root; but a loose declaration lets no root pass. */
type DeclaredFor<H> = H extends PoolOrRoot
  ? Extract<TransactionIn<Declared>, PoolOrRoot>
  : TransactionIn<Declared>

type Refusal<H> = H extends KnownTransaction | DeclaredFor<H>
  ? never
  : // oxlint-disable-next-line typescript/no-redundant-type-constituents -- `never` until a user declares a library
    H extends PoolOrRoot | RootIn<Declared>
    ? { readonly 'txbox: this is a pool or a root; pass the open transaction': never }
    : { readonly 'txbox: no transaction handle that it knows': never }

/** Turns a value that is not a transaction handle into a type error with one readable sentence. */
export type InTransaction<H> = [Refusal<H>] extends [never] ? unknown : Refusal<H>

/** The sentence for the compiler's error if the option `db` is no root. */
export interface NoRoot {
  readonly 'txbox: no pool or root that it knows; pass the root itself, not a client, a transaction or a database of txbox': never
}

/** A pool of mysql2 or of mariadb. An `EntityManager` of MikroORM has `getConnection`, too. */
export interface MysqlPoolLike {
  getConnection: Function
  readonly getTransactionContext?: never
}
/** A pool or root of pg, PGlite, pg-promise or postgres.js. */
export type PostgresPoolLike =
  | { totalCount: number }
  | { waitReady: unknown }
  | { $pool: unknown }
  | { reserve: Function; typed: Function }

/** Refuses what opens no transactions, and the pools of another database, which `Foreign` describes. */
export type RootOf<D, Foreign> = [TransactionOf<D>] extends [never] ? NoRoot : NotForeign<D, Foreign>

/** Refuses transactions and clients, and the pools of another database. A root of an unknown type is accepted. */
export type MigrationRootOf<D, Foreign> = [D] extends [KnownTransaction]
  ? RootOf<D, Foreign>
  : NotForeign<D, Foreign>

type NotForeign<D, Foreign> = [TransactionByRoot<Declared, D>] extends [never]
  ? D extends Foreign
    ? NoRoot
    : unknown
  : unknown

/** The type of the transactions that a root opens. */
export type TransactionOf<D> = [TransactionByRoot<Declared, D>] extends [never]
  ? KnownTransactionOf<D>
  : TransactionByRoot<Declared, D>

/*
 * The order matters. Of overloaded methods, TypeScript infers from the last overload only, so each branch names the
 * method whose last overload has the transaction.
 */
type KnownTransactionOf<D> =
  // Kysely
  D extends { transaction(): { execute<T>(work: (tx: infer Tx) => Promise<T>): Promise<T> } }
    ? Tx
    : // pg.Pool (an overload pair)
      D extends { totalCount: number; connect: { (): Promise<infer Tx>; (cb: never): void } }
      ? Tx
      : // MikroORM; tested before `getConnection`, which its EntityManager has, too
        D extends { getTransactionContext: Function; transactional(work: (em: infer Tx) => never): unknown }
        ? Tx
        : // a promise pool of mysql2 or mariadb
          D extends { getConnection(): Promise<infer Tx> }
          ? Tx
          : // Prisma
            D extends { $connect: Function; $transaction(work: (tx: infer Tx) => never): unknown }
            ? Tx
            : OrmTransactionOf<D>

type OrmTransactionOf<D> =
  // TypeORM
  D extends {
    createQueryRunner: Function
    transaction(level: never, work: (em: infer Tx) => Promise<never>): unknown
  }
    ? Tx
    : // Knex, whose overloads of `transaction` cannot be distinguished
      D extends { executionPromise?: never; transactionProvider(): () => Promise<infer Tx> }
      ? Tx
      : // Sequelize 7
        D extends { startUnmanagedTransaction(): Promise<infer Tx> }
        ? Tx
        : // Sequelize 6
          D extends { authenticate: Function; transaction(): Promise<infer Tx> }
          ? Tx
          : // Drizzle; a transaction has `rollback`
            D extends {
                execute: Function
                rollback?: never
                transaction(work: (tx: infer Tx) => Promise<never>): unknown
              }
            ? Tx
            : DriverTransactionOf<D>

type DriverTransactionOf<D> =
  // postgres.js
  D extends {
    reserve: Function
    typed: Function
    savepoint?: never
    begin(options: never, work: (sql: infer Tx) => never): unknown
  }
    ? Tx
    : // PGlite
      D extends { waitReady: unknown; transaction(work: (tx: infer Tx) => Promise<never>): unknown }
      ? Tx
      : // pg-promise
        D extends { $pool: unknown; tx(options: never, work: (task: infer Tx) => never): unknown }
        ? Tx
        : never
