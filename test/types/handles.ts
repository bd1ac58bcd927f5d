// Transactions of the libraries that txbox knows compile, and those of others do not. The real declarations of the libraries
// are checked in test/libraries.
import type { InTransaction, NoRoot } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import * as onMysql from '@txbox/mysql'
import { createOutbox } from '@txbox/outbox'
import * as onPostgres from '@txbox/postgres'
import type { Kysely, Transaction } from 'kysely'
import type { Pool as MysqlPool, PoolConnection } from 'mysql2/promise'
import type { Pool, PoolClient } from 'pg'
import { assertType, type Same } from './same.ts'
import type { NoRootSentence, PoolOrRootSentence, UnknownSentence } from './refusal-sentences.ts'

const { mysql } = onMysql
const { postgres } = onPostgres
declare const tx: Transaction<object>
declare const client: PoolClient
declare const connection: PoolConnection
const outbox = createOutbox({ database: postgres() })
const message = { topic: 't', payload: {} }
void outbox.publish(tx, message)
void outbox.publish(client, message)
void createOutbox({ database: mysql() }).publish(connection, message)

/** As the `mariadb` connector declares a connection and its pool. */
interface MariadbConnection {
  readonly threadId: number | null
  query(sql: string, values?: unknown): Promise<unknown>
  execute(sql: string, values?: unknown): Promise<unknown>
  batch(sql: string, values?: unknown): Promise<unknown>
  queryStream(sql: string): unknown
  beginTransaction(): Promise<void>
}
interface MariadbPool {
  getConnection(): Promise<MariadbConnection>
  batch(sql: string, values?: unknown): Promise<unknown>
}
declare const mariadb: MariadbConnection
declare const mariadbPool: MariadbPool
void createOutbox({ database: mysql() }).publish(mariadb, message)
mysql({ db: mariadbPool })
// @ts-expect-error a pool
void createOutbox({ database: mysql() }).publish(mariadbPool, message)

/** As Drizzle declares a transaction and a database. */
interface DrizzleDatabase {
  execute(query: unknown): Promise<unknown>
  transaction<T>(work: (tx: DrizzleTransaction) => Promise<T>, config?: object): Promise<T>
}
interface DrizzleTransaction extends DrizzleDatabase {
  rollback(): never
}
declare const drizzle: DrizzleTransaction
declare const drizzleRoot: DrizzleDatabase
void outbox.publish(drizzle, message)
postgres({ db: drizzleRoot })
// @ts-expect-error a root
void outbox.publish(drizzleRoot, message)

/** As Prisma declares an interactive transaction and a client; only a client has `$connect`. */
interface PrismaTransaction {
  $queryRaw(query: TemplateStringsArray): Promise<unknown>
  $queryRawUnsafe(query: string): Promise<unknown>
  $executeRawUnsafe(query: string): Promise<number>
  $transaction<T>(work: (tx: PrismaTransaction) => Promise<T>): Promise<T>
}
interface PrismaRoot extends PrismaTransaction {
  $connect(): Promise<void>
}
declare const prisma: PrismaTransaction
declare const prismaRoot: PrismaRoot
void outbox.publish(prisma, message)
postgres({ db: prismaRoot })
// @ts-expect-error a root
void outbox.publish(prismaRoot, message)

/** As Prisma declared a transaction before 7.8: it lacks what tells transactions apart, so that txbox refuses it. */
type OldPrismaTransaction = Omit<PrismaTransaction, '$transaction'>
declare const oldPrisma: OldPrismaTransaction
// @ts-expect-error a transaction of a Prisma that txbox does not support
void outbox.publish(oldPrisma, message)

/** As bun-types 1.4 declares them: a transaction is a root, too. postgres.js has `typed`, and Bun has not. */
interface BunSql {
  (strings: TemplateStringsArray): Promise<unknown>
  unsafe(text: string, values?: unknown[]): Promise<unknown>
  begin<T>(work: (tx: BunTransaction) => Promise<T>): Promise<T>
  begin<T>(options: string, work: (tx: BunTransaction) => Promise<T>): Promise<T>
  reserve(): Promise<BunSql & { release(): Promise<void> }>
  flush(): void
}
interface BunTransaction extends BunSql {
  savepoint<T>(work: (tx: BunTransaction) => Promise<T>): Promise<T>
}
declare const bun: BunTransaction
declare const bunRoot: BunSql
// @ts-expect-error a transaction that only `sqlTransaction` makes usable
void outbox.publish(bun, message)
// @ts-expect-error a root
void outbox.publish(bunRoot, message)
// @ts-expect-error a root that txbox does not know
postgres({ db: bunRoot })

/** As Slonik declares a transaction; `sqlTransaction` makes it usable. */
interface SlonikTransaction {
  query(query: object): Promise<{ rows: object[]; rowCount: number }>
  oneFirst(query: object): Promise<unknown>
}
declare const slonik: SlonikTransaction
// @ts-expect-error a transaction of a library that txbox does not know
void outbox.publish(slonik, message)

declare const db: Kysely<object>
declare const pool: Pool
declare const mysqlPool: MysqlPool
createInbox({ database: postgres({ db }), consumer: 'c' })
createInbox({ database: postgres({ db: pool }), consumer: 'c' })
createInbox({ database: mysql({ db: mysqlPool }), consumer: 'c' })

// One member that is no transaction is enough to refuse a union.
declare const either: Pool | PoolClient
// @ts-expect-error perhaps a pool
void outbox.publish(either, message)
declare const one: PoolClient | Transaction<object>
void outbox.publish(one, message)
assertType<Same<InTransaction<Pool>, PoolOrRootSentence>>()
assertType<Same<InTransaction<MysqlPool>, PoolOrRootSentence>>()
assertType<Same<InTransaction<Kysely<object>>, PoolOrRootSentence>>()
assertType<Same<InTransaction<DrizzleDatabase>, PoolOrRootSentence>>()
assertType<Same<InTransaction<PrismaRoot>, PoolOrRootSentence>>()
assertType<Same<InTransaction<SlonikTransaction>, UnknownSentence>>()
assertType<Same<InTransaction<OldPrismaTransaction>, UnknownSentence>>()
assertType<Same<InTransaction<BunTransaction>, UnknownSentence>>()
assertType<Same<InTransaction<BunSql>, PoolOrRootSentence>>()

// A value that is not a root does not compile as `db`. The compiler's error is one readable sentence.
// @ts-expect-error a client
postgres({ db: client })
// @ts-expect-error a connection
mysql({ db: connection })
// @ts-expect-error a database of txbox
postgres({ db: postgres({ db }) })
assertType<Same<NonNullable<Parameters<typeof postgres>[0]>['db'], NoRoot | undefined>>()
assertType<Same<NonNullable<Parameters<typeof mysql>[0]>['db'], NoRoot | undefined>>()
assertType<Same<Pick<NoRoot, keyof NoRoot>, NoRootSentence>>()
// @ts-expect-error a pool of MySQL
postgres({ db: mysqlPool })
// @ts-expect-error a pool of PostgreSQL
mysql({ db: pool })

/** `migrate` refuses what is certainly no root of its database. */
export async function refusedMigrations(): Promise<void> {
  // @ts-expect-error a client
  await onPostgres.migrate(client)
  // @ts-expect-error a pool of MySQL
  await onPostgres.migrate(mysqlPool)
  // @ts-expect-error a connection
  await onMysql.pendingMigrations(connection)
  // @ts-expect-error a pool of PostgreSQL
  await onMysql.migrate(pool)
  await Promise.all([
    onPostgres.migrate(pool),
    onPostgres.migrate(db),
    onMysql.migrate(mysqlPool),
    onMysql.migrate(db),
  ])
  await Promise.all([onPostgres.migrate(prismaRoot), onMysql.pendingMigrations(prismaRoot)])
}
