// Transactions of the libraries that txbox knows compile; those of others, whose statements txbox cannot send, do not.
import { createInbox } from '@txbox/inbox'
import { mysql } from '@txbox/mysql'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import type { Kysely, Transaction } from 'kysely'
import type { Pool as MysqlPool, PoolConnection } from 'mysql2/promise'
import type { Pool, PoolClient } from 'pg'

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
// @ts-expect-error a connection of the mariadb connector
void createOutbox({ database: mysql() }).publish(mariadb, message)
// @ts-expect-error a pool of the mariadb connector
mysql({ db: mariadbPool })

/** As Drizzle declares a transaction and a root. */
interface DrizzleTransaction {
  rollback(): never
  execute(query: unknown): Promise<unknown>
}
interface DrizzleRoot {
  transaction<T>(work: (tx: DrizzleTransaction) => Promise<T>, config?: object): Promise<T>
}
declare const drizzle: DrizzleTransaction
declare const drizzleRoot: DrizzleRoot
// @ts-expect-error a transaction of a library that txbox does not know
void outbox.publish(drizzle, message)
// @ts-expect-error a root of a library that txbox does not know
postgres({ db: drizzleRoot })

/** As Prisma declares an interactive transaction and a client. */
interface PrismaTransaction {
  $queryRawUnsafe(query: string): Promise<unknown>
  $executeRawUnsafe(query: string): Promise<number>
}
interface PrismaRoot extends PrismaTransaction {
  $transaction<T>(work: (tx: PrismaTransaction) => Promise<T>): Promise<T>
}
declare const prisma: PrismaTransaction
declare const prismaRoot: PrismaRoot
// @ts-expect-error a transaction of a library that txbox does not know
void outbox.publish(prisma, message)
// @ts-expect-error a root of a library that txbox does not know
postgres({ db: prismaRoot })

declare const db: Kysely<object>
declare const pool: Pool
declare const mysqlPool: MysqlPool
createInbox({ database: postgres({ db }), consumer: 'c' })
createInbox({ database: postgres({ db: pool }), consumer: 'c' })
createInbox({ database: mysql({ db: mysqlPool }), consumer: 'c' })
