import type { Kysely, Transaction } from 'kysely'
import type { Pool, PoolClient } from 'pg'
import type { LocalConsumer, LocalInboxMessage } from '@txbox/consumer'
import type { InboxMessage, Source } from '@txbox/core'
import { postgres } from '@txbox/postgres'
import { atLeastOnce, createTxbox, publishEach, type Relay, type Txbox } from 'txbox'
import type { Same } from './same.ts'

interface Order {
  readonly total: number
}
interface Tables {
  invoices: { total: number }
}
declare const pool: Pool
declare const kysely: Kysely<Tables>
declare const source: Source

// Handlers get the transaction of the root, and may name the payload of their type.
const box = createTxbox({
  database: postgres({ db: pool }),
  consumers: {
    billing: {
      'order.placed': async (tx, { payload, key }: LocalInboxMessage<Order>, { deliveries }) => {
        const client: PoolClient = tx
        await client.query('select $1', [payload.total.toFixed(2), key, deliveries])
      },
      'order.paid': async (tx, message, { signal }) => {
        const unknownPayload: Same<typeof message.payload, unknown> = true
        await tx.query('select $1', [signal.aborted, unknownPayload])
      },
      'mail.wanted': atLeastOnce(
        async ({ payload }: LocalInboxMessage<{ to: string }>, { idempotencyKey, signal }) => {
          await fetch(payload.to, { signal, headers: { 'idempotency-key': idempotencyKey } })
        },
      ),
    },
    mailer: {
      handlers: {
        'order.placed': atLeastOnce(
          async ({ id, key }, { deliveries }) => void [id.length, key, deliveries.toFixed()],
        ),
      },
      concurrency: 4,
      retry: { attempts: 3, delayMs: () => 100 },
    },
    totals: {
      batch: { maxSize: 100, lingerMs: 50 },
      handlers: {
        'order.placed': async (tx: PoolClient, messages: readonly LocalInboxMessage<Order>[]) => {
          await tx.query('select $1', [messages.length])
        },
      },
    },
  },
  subscriptions: { 'order.placed': ['search'] },
  publisher: publishEach(() => undefined),
  sources: {
    payments: {
      source,
      handlers: {
        'payment.made': async (tx, { payload }: InboxMessage<Order>) => {
          const client: PoolClient = tx
          await client.query('select $1', [payload.total])
        },
        'payment.failed': atLeastOnce(async ({ id }, { signal }) => void [id, signal.aborted]),
      },
      unhandled: 'ignore',
    },
  },
  unrouted: 'refuse',
  migrate: 'unless-production',
  relay: { batchSize: 100 },
  gc: { intervalMs: 60_000 },
  isolationLevel: 'repeatable read',
  logger: false,
  stopTimeoutMs: 10_000,
  signals: true,
})

// Every part is reachable by its name.
const billing: LocalConsumer = box.consumers.billing
const relay: Relay | undefined = box.relay
void [billing, relay, box.sources.payments, box.gc?.runOnce(), box.deadLetters.list({ consumer: 'billing' })]
// @ts-expect-error there is no such consumer
void box.consumers.biling

// A message needs no topic, and takes the transaction of the caller or its own.
void box.transact(
  async (tx) => {
    const client: PoolClient = tx
    const stored = await box.publish({ type: 'order.placed', key: 'o1', payload: { total: 3 } })
    const several = await box.publish([{ topic: 'orders', payload: 1 }])
    const inGiven = await box.publish(client, { type: 'order.placed', payload: { total: 3 } })
    return [stored.id, several[0]?.id, inGiven.id]
  },
  { isolation: 'serializable', attempts: 3 },
)
// @ts-expect-error a pool is no transaction
void box.publish(pool, { type: 'order.placed', payload: 1 })
// @ts-expect-error a misspelt field
void box.publish({ type: 'order.placed', payload: 1, kee: 'o1' })
void box
  .inbox('webhook')
  .run({ id: 'm1', payload: 1 }, async (tx, { payload }) => tx.query('select $1', [payload]))
void box.drain({ deadlineMs: 1000 }).then(({ handled, published, parked, deadLettered, left, consumers }) => {
  const sum: number = handled + published + parked + deadLettered + left + (consumers['billing']?.left ?? 0)
  return sum
})
void box.health().then(({ ok, parts, oldestDueMs }) => {
  const [flag, age, reason]: [boolean, number, string | undefined] = [ok, oldestDueMs, parts['relay']?.reason]
  return [flag, age, reason]
})
box.on('trouble', ({ part, error }) => void [part.length, error])

// The smallest boxes.
const smallest: Txbox<Transaction<Tables>, never, never> = createTxbox({ database: postgres({ db: kysely }) })
createTxbox({ database: postgres({ db: kysely }), consumers: {} })
async function dispose(): Promise<void> {
  await using disposed = createTxbox({
    database: postgres({ db: kysely }),
    publisher: publishEach(() => undefined),
    relay: false,
  })
  await disposed.transact((tx) => tx.insertInto('invoices').values({ total: 1 }).execute())
}
void [smallest, dispose]
// A box of any names, such as a field of a class.
const anyBox: Txbox<PoolClient> = box
void anyBox.consumers['billing']?.start()

// @ts-expect-error the database has no connections
createTxbox({ database: postgres() })
createTxbox({
  database: postgres({ db: pool }),
  consumers: {
    billing: {
      // @ts-expect-error the transaction of another library
      'order.placed': async (tx: Transaction<Tables>) => void tx,
    },
  },
})
// @ts-expect-error a misspelt option
createTxbox({ database: postgres({ db: pool }), consumer: {} })
// @ts-expect-error another way to migrate
createTxbox({ database: postgres({ db: pool }), migrate: 'always' })
