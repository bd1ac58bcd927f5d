import type { Kysely } from 'kysely'
import type { Pool, PoolClient } from 'pg'
import {
  atLeastOnce,
  createLocalConsumer,
  type ConsumerContext,
  type InboxMessage,
  type LocalConsumer,
  type LocalInboxMessage,
} from '@txbox/consumer'
import { postgres } from '@txbox/postgres'
import { atLeastOnce as ofTxbox, createLocalConsumer as createdByTxbox } from 'txbox'
import type { Same } from './same.ts'

interface Order {
  readonly total: number
}
interface Mail {
  readonly to: string
}
declare const pool: Pool
declare const kysely: Kysely<{ invoices: { total: number } }>
const database = postgres({ db: pool })

// The transaction is that of the root, and each type has its own payload.
const consumer: LocalConsumer = createLocalConsumer({
  database,
  consumer: 'billing',
  handlers: {
    'order.placed': async (
      tx,
      { payload, key, topic }: LocalInboxMessage<Order>,
      { deliveries, localRetries },
    ) => {
      const client: PoolClient = tx
      const names: [string | undefined, string | undefined] = [key, topic]
      await client.query('select $1, $2, $3', [payload.total.toFixed(2), deliveries + localRetries, names])
    },
    'mail.wanted': async (_tx, { payload }: InboxMessage<Mail>) => void payload.to.length,
    'order.paid': async (tx, message, { signal, idempotencyKey }) => {
      const unknownPayload: Same<typeof message.payload, unknown> = true
      await tx.query('select $1', [idempotencyKey, signal.aborted, unknownPayload])
    },
  },
})
void consumer.start().then(() => consumer.stop({ timeoutMs: 100 }))
void consumer.drain({ deadlineMs: 1000 }).then(({ handled, parked, deadLettered, left }) => {
  const sum: number = handled + parked + deadLettered + left
  return sum
})
consumer.on(
  'dead-lettered',
  ({ message, error, deliveries }) => void [message.key, message.topic, error, deliveries],
)

// At least once, there is no transaction.
createLocalConsumer({
  database: postgres({ db: kysely }),
  consumer: 'mailer',
  handlers: {
    'mail.wanted': atLeastOnce(
      async ({ payload, key }: LocalInboxMessage<Mail>, { idempotencyKey, signal }) => {
        await fetch(payload.to, { signal, headers: { 'idempotency-key': idempotencyKey, key: key ?? '' } })
      },
    ),
    'order.placed': atLeastOnce(
      async ({ id, key }, { deliveries }) => void [id.length, key, deliveries.toFixed()],
    ),
    'order.paid': async (tx, { payload }: InboxMessage<Order>) => {
      await tx.insertInto('invoices').values({ total: payload.total }).execute()
    },
  },
  concurrency: 4,
  retry: { attempts: 3, delayMs: () => 100 },
  isolationLevel: 'repeatable read',
  pollIntervalMs: { max: 100 },
})
atLeastOnce(async ({ id, payload }, { signal }: ConsumerContext) => void [id, payload, signal])

// With `batch`, a handler gets several messages.
createLocalConsumer({
  database,
  consumer: 'totals',
  batch: { maxSize: 100, lingerMs: 10 },
  handlers: {
    'order.placed': async (tx, messages: readonly LocalInboxMessage<Order>[], contexts) => {
      const totals = messages.map(({ payload }) => payload.total)
      await tx.query('select $1', [totals, contexts.map(({ deliveries }) => deliveries)])
    },
    'order.paid': async (tx, messages) => void (await tx.query('select $1', [messages.length])),
    'mail.wanted': atLeastOnce(async (messages: readonly LocalInboxMessage<Mail>[], contexts) => {
      for (const [n, message] of messages.entries()) contexts[n]!.ack(message.payload.to.length)
    }),
  },
})

createdByTxbox({ database, consumer: 'billing', handlers: { x: ofTxbox(async (message) => message.id) } })

// @ts-expect-error -- a local consumer has a name
createLocalConsumer({ database, handlers: { x: () => undefined } })
// @ts-expect-error -- a local consumer has handlers
createLocalConsumer({ database, consumer: 'x' })
createLocalConsumer({
  // @ts-expect-error -- a database without a db opens no transactions
  database: postgres(),
  consumer: 'x',
  handlers: { x: () => undefined },
})
createLocalConsumer({
  database,
  consumer: 'x',
  // @ts-expect-error -- the transactions of the database are clients of pg
  handlers: { x: (tx: string) => tx },
})
createLocalConsumer({
  database,
  consumer: 'x',
  handlers: { x: () => undefined },
  // @ts-expect-error -- there is no other order
  order: 'none',
})
// @ts-expect-error -- only a handler can be marked
atLeastOnce('handler')
