import { createInbox, type Inbox, type InboxMessage } from '@txbox/inbox'
import { mysql } from '@txbox/mysql'
import { createOutbox } from '@txbox/outbox'
import type { Kysely, Transaction } from 'kysely'
import type { Pool as CallbackPool, PoolConnection as CallbackConnection } from 'mysql2'
import type { Pool, PoolConnection } from 'mysql2/promise'
import { assertType, type Same } from './same.ts'

declare const db: Kysely<object>
declare const trx: Transaction<object>
declare const pool: Pool
declare const callbackPool: CallbackPool
declare const poolConnection: PoolConnection
declare const callbackConnection: CallbackConnection
declare const message: InboxMessage<{ n: number }>

// The root decides what `run` hands to the handler.
const onKysely = createInbox({ database: mysql({ db }), consumer: 'c' })
assertType<Same<typeof onKysely, Inbox<Transaction<object>>>>()
const onPool = createInbox({ database: mysql({ db: pool, prefix: 'p_' }), consumer: 'c' })
assertType<Same<typeof onPool, Inbox<PoolConnection>>>()
const detached = createInbox({ database: mysql(), consumer: 'c' })
const outbox = createOutbox({ database: mysql() })

export async function handlers(): Promise<void> {
  await onPool.run(message, async (tx) => assertType<Same<typeof tx, PoolConnection>>())
  await detached.process(trx, message, () => {})
  await detached.process(poolConnection, message, (tx) => assertType<Same<typeof tx, PoolConnection>>())
  await detached.process(callbackConnection, message, () => {})
  await outbox.publish(poolConnection, { topic: 't', payload: 1 })
  await outbox.publish(callbackConnection, { topic: 't', payload: 1 })
}

export async function refused(): Promise<void> {
  // @ts-expect-error a pool, which in its types extends a connection
  await detached.process(pool, message, () => {})
  // @ts-expect-error a pool of callback style
  await outbox.publish(callbackPool, { topic: 't', payload: 1 })
  // @ts-expect-error a root
  await detached.process(db, message, () => {})
  // @ts-expect-error a callback pool opens nothing by promise: pass pool.promise()
  mysql({ db: callbackPool })
  // @ts-expect-error a typo
  mysql({ prefx: 'x' })
}
