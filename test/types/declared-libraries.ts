// Libraries that users declare by module augmentation, and `sqlTransaction`.
import {
  defineLibrary,
  sqlTransaction,
  type InTransaction,
  type SqlTransaction,
  type TransactionOf,
} from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import type { Pool, PoolClient } from 'pg'
import { assertType, type Same } from './same.ts'
import type { PoolOrRootSentence, UnknownSentence } from './refusal-sentences.ts'

interface MyTransaction {
  readonly mine: PoolClient
}
interface MyDatabase {
  readonly pool: Pool
  inTransaction<T>(work: (tx: MyTransaction) => Promise<T>): Promise<T>
}
/** Has a method of pools. */
interface OddTransaction {
  getConnection(): PoolClient
  readonly odd: true
}
/** Pools have this method, too. */
interface LooseTransaction {
  end(): Promise<void>
}
declare module '@txbox/core' {
  interface TransactionLibraries {
    mine: { tx: MyTransaction; root: MyDatabase }
    odd: { tx: OddTransaction }
    loose: { tx: LooseTransaction }
  }
}

const mine = defineLibrary<MyTransaction, MyDatabase>({
  name: 'mine',
  recognises: (handle): handle is MyTransaction => Reflect.has(Object(handle), 'mine'),
  connectionOf: (tx) => tx.mine,
  root: {
    recognises: (root): root is MyDatabase => Reflect.has(Object(root), 'inTransaction'),
    poolOf: (db) => db.pool,
    transact: (db, work) => db.inTransaction(work),
  },
})
declare const db: MyDatabase
declare const tx: MyTransaction
declare const odd: OddTransaction
declare const loose: LooseTransaction
declare const pool: Pool
declare const message: { id: string }
const inbox = createInbox({ database: postgres(), consumer: 'c' })
const outbox = createOutbox({ database: postgres() })

export async function declared(): Promise<void> {
  const database = postgres({ db, libraries: [mine] })
  await database.transact(async (own) => assertType<Same<typeof own, MyTransaction>>())
  const own = createInbox({ database, consumer: 'c' })
  await own.run(message, (own) => assertType<Same<typeof own, MyTransaction>>())
  await inbox.process(tx, message, (own) => assertType<Same<typeof own, MyTransaction>>())
  await inbox.hasProcessed(tx, message)
  await inbox.process(odd, message, (own) => assertType<Same<typeof own, OddTransaction>>())
  await outbox.publish(loose, { topic: 't', payload: 1 })
  // @ts-expect-error a root
  await inbox.process(db, message, () => {})
  // @ts-expect-error a pool, although the declaration of a library would accept it
  await inbox.process(pool, message, () => {})
  // @ts-expect-error an object of nobody
  await inbox.process({ yours: 1 }, message, () => {})
  // @ts-expect-error a library without a root
  postgres({ db: odd })
}
assertType<Same<InTransaction<MyDatabase>, PoolOrRootSentence>>()
assertType<Same<InTransaction<Pool>, PoolOrRootSentence>>()
assertType<Same<InTransaction<{ yours: 1 }>, UnknownSentence>>()
assertType<Same<TransactionOf<Pool>, PoolClient>>()

export async function wrapped(): Promise<void> {
  const handle = sqlTransaction({ name: 'mine', query: async () => ({ rows: [] }) })
  await inbox.process(handle, message, (own) => assertType<Same<typeof own, SqlTransaction>>())
  await inbox.hasProcessed(handle, message)
  await outbox.publish(handle, { topic: 't', payload: 1 })
  // @ts-expect-error what sqlTransaction takes is not what it returns
  await inbox.process({ name: 'mine', query: async () => ({ rows: [] }) }, message, () => {})
}
