import type { InboxMessage, Source, TransactionHandle } from '@txbox/core'
import type { Kysely } from 'kysely'
import { mysql } from '@txbox/mysql'
import type { PoolConnection, Pool as MysqlPool } from 'mysql2/promise'
import { postgres } from '@txbox/postgres'
import {
  createQueue,
  queueSource,
  type NewQueueMessage,
  type Queue,
  type Receipt,
  type Received,
  type SendingQueue,
  type StoredId,
} from '@txbox/queue'
import type { Pool, PoolClient } from 'pg'
import type * as short from 'txbox/queue'
import { assertType, type Same } from './same.ts'

interface Order {
  readonly cents: number
}
declare const pool: Pool
declare const kysely: Kysely<object>
declare const client: PoolClient
declare const mysqlPool: MysqlPool
declare const connection: PoolConnection

/** A double of a queue declares its parameter as one message or an array. */
export class Recorded<P> implements SendingQueue<P> {
  readonly name = 'orders'
  readonly messages: NewQueueMessage<P>[] = []
  async send(_tx: object, message: NewQueueMessage<P> | readonly NewQueueMessage<P>[]): Promise<never> {
    this.messages.push(...(Array.isArray(message) ? message : [message]))
    return {} as never
  }
}

export async function queues(): Promise<void> {
  const queue = createQueue<PoolClient, Order>({ database: postgres({ db: pool }), name: 'orders' })
  assertType<Same<typeof queue, Queue<PoolClient, Order>>>()
  const one = await queue.send(client, { payload: { cents: 5 }, key: 'a', deliverAt: new Date() })
  assertType<Same<typeof one, StoredId>>()
  const many = await queue.send(client, [{ payload: { cents: 5 } }])
  assertType<Same<typeof many, readonly StoredId[]>>()
  // @ts-expect-error another payload
  await queue.send(client, { payload: { euros: 5 } })
  // @ts-expect-error a misspelt field
  await queue.send(client, { payload: { cents: 5 }, kye: 'a' })
  // @ts-expect-error a misspelt field of a message in an array
  await queue.send(client, [{ payload: { cents: 5 }, kye: 'a' }])
  // @ts-expect-error a field that the payload does not have
  await queue.send(client, { payload: { cents: 5, euros: 5 } })
  // @ts-expect-error a pool is no transaction
  await queue.send(pool, { payload: { cents: 5 } })

  const [received] = await queue.receive({
    limit: 10,
    waitMs: 20_000,
    attemptId: undefined,
    signal: undefined,
  })
  if (received === undefined) return
  assertType<Same<typeof received, Received<Order>>>()
  assertType<Same<typeof received.message, InboxMessage<Order>>>()
  await queue.delete(received, { tx: client })
  // @ts-expect-error the transaction of another library
  await queue.delete(received, { tx: connection })
  const elsewhere: Receipt = { receipt: received.receipt }
  await queue.delete(elsewhere)
  await queue.changeVisibility(elsewhere, 0)
  await queue.release(elsewhere, { delayMs: 5, error: new Error('busy'), counted: undefined })
  // @ts-expect-error a dead letter has a reason
  await queue.bury(elsewhere)
  for (const { id, error } of await queue.deadLetters.list()) id.concat(error)
  assertType<Same<Awaited<ReturnType<typeof queue.purge>>, { readonly removed: number }>>()

  const source = queueSource(queue, { pollIntervalMs: { min: 5 } })
  assertType<Same<typeof source, Source<Order>>>()

  const ofOrders = createQueue<Order>({ database: postgres({ db: pool }), name: 'orders' })
  assertType<Same<typeof ofOrders, Queue<TransactionHandle, Order>>>()
  await ofOrders.delete(elsewhere, { tx: client })
  // @ts-expect-error a root is no transaction
  await ofOrders.delete(elsewhere, { tx: kysely })
  const sameQueue: Queue<PoolClient, Order> = ofOrders
  const sourceOfOrders = queueSource(ofOrders)
  assertType<Same<typeof sourceOfOrders, Source<Order>>>()
  const ofTransactions = createQueue<PoolClient>({ database: postgres({ db: pool }), name: sameQueue.name })
  assertType<Same<typeof ofTransactions, Queue<PoolClient>>>()

  const inferred = createQueue({
    database: mysql({ db: mysqlPool }),
    name: 'q',
    deduplication: { scope: 'key' },
  })
  await inferred.send(connection, { payload: 'anything', deduplicationId: 'x' })

  const sending = createQueue<Order>({ database: postgres(), name: 'orders' })
  assertType<Same<typeof sending, SendingQueue<Order>>>()
  // @ts-expect-error it has no connections of its own
  await sending.receive()
  // @ts-expect-error a name is required
  createQueue({ database: postgres() })
  assertType<Same<typeof short.createQueue, typeof createQueue>>()
}
