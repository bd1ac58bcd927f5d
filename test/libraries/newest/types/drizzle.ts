// Open transactions of Drizzle compile, databases do not, and handlers receive exactly Drizzle's own type.
import type { InTransaction } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { mysql } from '@txbox/mysql'
import { postgres } from '@txbox/postgres'
import type { BetterSQLite3Database } from 'drizzle-orm/better-sqlite3'
import { drizzle as onMysql2, type MySql2Database } from 'drizzle-orm/mysql2'
import { drizzle as onPg, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import type { NeonDatabase } from 'drizzle-orm/neon-serverless'
import type { PgliteDatabase } from 'drizzle-orm/pglite'
import { drizzle as onPostgresjs, type PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import { pgTable, text } from 'drizzle-orm/pg-core'
import { assertType, type Same } from '../../../types/same.ts'
import type { PoolOrRootSentence } from '../../../types/refusal-sentences.ts'

/** The transactions of a database, as users of Drizzle write this type. */
type TxOf<D extends { transaction: (work: never) => unknown }> = D extends {
  transaction: (work: (tx: infer Tx) => Promise<never>) => unknown
}
  ? Tx
  : never

const inbox = createInbox({ database: postgres(), consumer: 'c' })
const mysqlInbox = createInbox({ database: mysql(), consumer: 'c' })
const message = { id: 'm' }
const orders = pgTable('orders', { id: text('id').primaryKey() })

export async function nodePostgres(): Promise<void> {
  const db = onPg('postgres://localhost')
  type Tx = Parameters<Parameters<typeof db.transaction>[0]>[0]
  const database = postgres({ db })
  await database.transact(async (tx) => assertType<Same<typeof tx, Tx>>())
  const own = createInbox({ database, consumer: 'c' })
  await own.run(message, async (tx) => {
    assertType<Same<typeof tx, Tx>>()
    await tx.insert(orders).values({ id: '1' })
  })
  await db.transaction((tx) =>
    inbox.process(tx, message, async (own) => {
      assertType<Same<typeof own, Tx>>()
      await own.insert(orders).values({ id: '1' })
      await own.transaction((nested) => inbox.hasProcessed(nested, message))
    }),
  )
  // @ts-expect-error a root
  await inbox.process(db, message, () => {})
  // @ts-expect-error a root
  await inbox.hasProcessed(db, message)
  // @ts-expect-error a transaction is no root
  await db.transaction(async (tx) => postgres({ db: tx }))
}

export async function postgresjs(): Promise<void> {
  const db = onPostgresjs('postgres://localhost')
  type Tx = Parameters<Parameters<typeof db.transaction>[0]>[0]
  const own = createInbox({ database: postgres({ db }), consumer: 'c' })
  await own.run(message, (tx) => assertType<Same<typeof tx, Tx>>())
  await db.transaction((tx) => inbox.process(tx, message, (own) => assertType<Same<typeof own, Tx>>()))
  // @ts-expect-error a root
  await inbox.process(db, message, () => {})
}

export async function mysql2(): Promise<void> {
  const db = onMysql2('mysql://localhost')
  type Tx = Parameters<Parameters<typeof db.transaction>[0]>[0]
  const own = createInbox({ database: mysql({ db }), consumer: 'c' })
  await own.run(message, (tx) => assertType<Same<typeof tx, Tx>>())
  await db.transaction((tx) => mysqlInbox.process(tx, message, (own) => assertType<Same<typeof own, Tx>>()))
  // @ts-expect-error a root
  await mysqlInbox.process(db, message, () => {})
  // @ts-expect-error a root
  await mysqlInbox.hasProcessed(db, message)
}

// The classes without `$client`, as applications declare a database that they inject.
declare const nodePg: NodePgDatabase
declare const postgresJs: PostgresJsDatabase
declare const neon: NeonDatabase
declare const pglite: PgliteDatabase
declare const mySql2: MySql2Database
declare const sqlite: BetterSQLite3Database
export async function injected(): Promise<void> {
  await postgres({ db: nodePg }).transact(async (tx) => assertType<Same<typeof tx, TxOf<NodePgDatabase>>>())
  await postgres({ db: postgresJs }).transact(async (tx) =>
    assertType<Same<typeof tx, TxOf<PostgresJsDatabase>>>(),
  )
  await postgres({ db: neon }).transact(async (tx) => assertType<Same<typeof tx, TxOf<NeonDatabase>>>())
  await postgres({ db: pglite }).transact(async (tx) => assertType<Same<typeof tx, TxOf<PgliteDatabase>>>())
  await mysql({ db: mySql2 }).transact(async (tx) => assertType<Same<typeof tx, TxOf<MySql2Database>>>())
  await pglite.transaction((tx) => inbox.process(tx, message, () => {}))
  // @ts-expect-error a root
  await inbox.process(nodePg, message, () => {})
  // @ts-expect-error a root
  await inbox.process(neon, message, () => {})
  // @ts-expect-error a database that txbox does not know
  postgres({ db: sqlite })
}

// The compiler says what is wrong.
assertType<Same<InTransaction<NodePgDatabase>, PoolOrRootSentence>>()
assertType<Same<InTransaction<PostgresJsDatabase>, PoolOrRootSentence>>()
assertType<Same<InTransaction<NeonDatabase>, PoolOrRootSentence>>()
assertType<Same<InTransaction<PgliteDatabase>, PoolOrRootSentence>>()
assertType<Same<InTransaction<MySql2Database>, PoolOrRootSentence>>()
