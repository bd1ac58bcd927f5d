// Open transactions of drivers compile, roots and pools do not, and handlers receive exactly the driver's own type.
import type { PGlite, Transaction as PgliteTransaction } from '@electric-sql/pglite'
import type { Pool as NeonPool, PoolClient as NeonClient } from '@neondatabase/serverless'
import type { InTransaction } from '@txbox/core'
import { createInbox, type Inbox } from '@txbox/inbox'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import type * as mariadb from 'mariadb'
import type { Connection as MariadbCallbackConnection, Pool as MariadbCallbackPool } from 'mariadb/callback'
import type * as mysql2 from 'mysql2/promise'
import type { Client, Pool, PoolClient } from 'pg'
import type { IDatabase, ITask } from 'pg-promise'
import type { ReservedSql, Sql, TransactionSql } from 'postgres'
import { assertType, type Same } from '../../../types/same.ts'
import type { PoolOrRootSentence } from '../../../types/refusal-sentences.ts'

const inbox = createInbox({ database: postgres(), consumer: 'c' })
const mysqlInbox = createInbox({ database: mysql(), consumer: 'c' })
const message = { id: 'm' }

declare const pool: Pool
declare const client: Client
export async function pg(): Promise<void> {
  const database = postgres({ db: pool })
  await database.transact(async (tx) => assertType<Same<typeof tx, PoolClient>>())
  const own = createInbox({ database, consumer: 'c' })
  assertType<Same<typeof own, Inbox<PoolClient>>>()
  await own.run(message, (tx) => assertType<Same<typeof tx, PoolClient>>())
  await inbox.process(client, message, (tx) => assertType<Same<typeof tx, Client>>())
  // @ts-expect-error a pool
  await inbox.process(pool, message, () => {})
  // @ts-expect-error a pool
  await inbox.hasProcessed(pool, message)
}

declare const neonPool: NeonPool
declare const neonClient: NeonClient
export async function neon(): Promise<void> {
  const own = createInbox({ database: postgres({ db: neonPool }), consumer: 'c' })
  await own.run(message, (tx) => assertType<Same<typeof tx, NeonClient>>())
  await inbox.process(neonClient, message, (tx) => assertType<Same<typeof tx, NeonClient>>())
  // @ts-expect-error a pool
  await inbox.process(neonPool, message, () => {})
}

declare const mysqlPool: mysql2.Pool
declare const mysqlConnection: mysql2.Connection
export async function mysql2Promise(): Promise<void> {
  const database = mysql({ db: mysqlPool })
  await database.transact(async (tx) => assertType<Same<typeof tx, mysql2.PoolConnection>>())
  const own = createInbox({ database, consumer: 'c' })
  await own.run(message, (tx) => assertType<Same<typeof tx, mysql2.PoolConnection>>())
  await mysqlInbox.process(mysqlConnection, message, (tx) => assertType<Same<typeof tx, mysql2.Connection>>())
  // @ts-expect-error a pool
  await mysqlInbox.process(mysqlPool, message, () => {})
  // @ts-expect-error a pool
  await mysqlInbox.hasProcessed(mysqlPool, message)
}

declare const mariadbPool: mariadb.Pool
declare const mariadbConnection: mariadb.Connection
export async function mariadbPromise(): Promise<void> {
  const database = mysql({ db: mariadbPool })
  await database.transact(async (tx) => assertType<Same<typeof tx, mariadb.PoolConnection>>())
  const own = createInbox({ database, consumer: 'c' })
  await own.run(message, (tx) => assertType<Same<typeof tx, mariadb.PoolConnection>>())
  await mysqlInbox.process(mariadbConnection, message, (tx) =>
    assertType<Same<typeof tx, mariadb.Connection>>(),
  )
  await mysqlInbox.hasProcessed(mariadbConnection, message)
  // @ts-expect-error a pool
  await mysqlInbox.process(mariadbPool, message, () => {})
  // @ts-expect-error a pool
  await mysqlInbox.hasProcessed(mariadbPool, message)
}

declare const callbackConnection: MariadbCallbackConnection
declare const callbackPool: MariadbCallbackPool
export async function mariadbCallback(): Promise<void> {
  await mysqlInbox.process(callbackConnection, message, () => {})
  // @ts-expect-error a pool
  await mysqlInbox.process(callbackPool, message, () => {})
}

declare const sql: Sql
declare const typedSql: Sql<{ bigint: bigint }>
declare const sqlTx: TransactionSql
declare const reserved: ReservedSql
export async function postgresjs(): Promise<void> {
  const database = postgres({ db: sql })
  await database.transact(async (tx) => assertType<Same<typeof tx, TransactionSql>>())
  const own = createInbox({ database: postgres({ db: typedSql }), consumer: 'c' })
  await own.run(message, (tx) => assertType<Same<typeof tx, TransactionSql<{ bigint: bigint }>>>())
  await inbox.process(sqlTx, message, (tx) => assertType<Same<typeof tx, TransactionSql>>())
  await sql.begin((begun) => inbox.process(begun, message, (tx) => tx`select 1`))
  await inbox.hasProcessed(sqlTx, message)
  // @ts-expect-error a root
  await inbox.process(sql, message, () => {})
  // @ts-expect-error a root
  await inbox.hasProcessed(sql, message)
  // @ts-expect-error a reserved connection, which in its types is a root
  await inbox.process(reserved, message, () => {})
  // @ts-expect-error a transaction opens no transaction
  postgres({ db: sqlTx })
}

declare const pglite: PGlite
declare const pgliteTx: PgliteTransaction
export async function pgliteAlone(): Promise<void> {
  const database = postgres({ db: pglite })
  await database.transact(async (tx) => assertType<Same<typeof tx, PgliteTransaction>>())
  const own = createInbox({ database, consumer: 'c' })
  await own.run(message, (tx) => assertType<Same<typeof tx, PgliteTransaction>>())
  await inbox.process(pgliteTx, message, (tx) => assertType<Same<typeof tx, PgliteTransaction>>())
  await inbox.hasProcessed(pgliteTx, message)
  // @ts-expect-error a root
  await inbox.process(pglite, message, () => {})
  // @ts-expect-error a root
  await inbox.hasProcessed(pglite, message)
}

interface Extensions {
  findOrder(id: string): Promise<object>
}
declare const pgPromise: IDatabase<object>
declare const extended: IDatabase<Extensions> & Extensions
export async function pgPromiseTasks(): Promise<void> {
  const database = postgres({ db: extended })
  await database.transact(async (tx) => assertType<Same<typeof tx, ITask<Extensions> & Extensions>>())
  const own = createInbox({ database: postgres({ db: pgPromise }), consumer: 'c' })
  await own.run(message, async (tx) => void (await tx.none('select 1')))
  await pgPromise.tx((task) =>
    inbox.process(task, message, (tx) => assertType<Same<typeof tx, typeof task>>()),
  )
  await extended.tx((task) => inbox.process(task, message, (tx) => tx.findOrder('1')))
  await extended.tx((task) => inbox.hasProcessed(task, message))
  // @ts-expect-error a root
  await inbox.process(pgPromise, message, () => {})
  // @ts-expect-error a root
  await inbox.hasProcessed(pgPromise, message)
}

// The compiler says what is wrong.
assertType<Same<InTransaction<Pool>, PoolOrRootSentence>>()
assertType<Same<InTransaction<NeonPool>, PoolOrRootSentence>>()
assertType<Same<InTransaction<mysql2.Pool>, PoolOrRootSentence>>()
assertType<Same<InTransaction<mariadb.Pool>, PoolOrRootSentence>>()
assertType<Same<InTransaction<Sql>, PoolOrRootSentence>>()
assertType<Same<InTransaction<ReservedSql>, PoolOrRootSentence>>()
assertType<Same<InTransaction<PGlite>, PoolOrRootSentence>>()
assertType<Same<InTransaction<IDatabase<object>>, PoolOrRootSentence>>()
