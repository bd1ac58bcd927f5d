import type { Kysely } from 'kysely'
import type { Pool, PoolClient } from 'pg'
import { createConsumer, type ConsumerContext, type InboxMessage } from '@txbox/consumer'
import { createInbox, type Inbox } from '@txbox/inbox'
import { postgres } from '@txbox/postgres'
import { rabbitmqSource } from '@txbox/rabbitmq'

declare const pool: Pool
declare const kysely: Kysely<{ invoices: { total: number } }>
const source = rabbitmqSource<{ total: number }>({
  url: 'amqp://localhost',
  queue: 'orders',
  keepsRejected: true,
})

createConsumer({
  source,
  inbox: createInbox({ database: postgres({ db: pool }), consumer: 'billing' }),
  handler: async (tx, { payload }, { deliveries }) => {
    const client: PoolClient = tx
    await client.query('select $1, $2', [payload.total.toFixed(2), deliveries])
  },
})
createConsumer({
  source,
  inbox: createInbox({ database: postgres({ db: kysely }), consumer: 'billing' }),
  batch: { maxSize: 100, lingerMs: 50 },
  handler: async (tx, messages) => {
    const totals = messages.map(({ payload }) => ({ total: payload.total }))
    await tx.insertInto('invoices').values(totals).execute()
  },
})
createConsumer({
  source,
  name: 'mail',
  acknowledge: 'manual',
  handler: ({ payload }, context: ConsumerContext) => context.ack(payload.total),
})
const withoutTransaction = (_tx: object, _message: object, _context: object): void => undefined
// @ts-expect-error -- without an inbox or a database there is no transaction
createConsumer({ source, name: 'mail', handler: withoutTransaction })
// @ts-expect-error -- without an inbox, a consumer needs a name
createConsumer({ source, handler: () => undefined })
// @ts-expect-error -- without an inbox, a consumer needs a name
createConsumer({ source, database: postgres({ db: pool }), handler: () => undefined })
createConsumer({ source, name: 'mail', database: postgres({ db: pool }), handler: () => undefined })
const detached = createInbox({ database: postgres(), consumer: 'x' })
// @ts-expect-error -- an inbox without a db opens no transactions
createConsumer({ source, inbox: detached, handler: () => undefined })

// The error of a wrong option is at this option, whatever the kind of consumer.
const inbox = createInbox({ database: postgres({ db: pool }), consumer: 'billing' })
const database = postgres({ db: pool })
createConsumer({
  source,
  inbox,
  // @ts-expect-error -- misspelt
  concurency: 3,
  handler: async (tx, { payload }) => void (await tx.query('select $1', [payload.total])),
})
createConsumer({
  source,
  name: 'mail',
  database,
  // @ts-expect-error -- misspelt
  concurency: 3,
  handler: async (tx) => void (await tx.query('select 1')),
})
createConsumer({
  source,
  inbox,
  batch: {
    // @ts-expect-error -- no number
    maxSize: 'all',
  },
  handler: () => undefined,
})
createConsumer({
  source,
  inbox,
  batch: {
    maxSize: 5,
    // @ts-expect-error -- misspelt
    linger: 50,
  },
  handler: () => undefined,
})
createConsumer({
  source,
  inbox,
  // @ts-expect-error -- no number
  handleTimeoutMs: '5 min',
  batch: { maxSize: 5 },
  handler: async (tx, messages) => void (await tx.query('select $1', [messages.length])),
})
createConsumer({
  source,
  inbox,
  // @ts-expect-error -- only without a transaction
  delivery: 'at-most-once',
  handler: async (tx) => void (await tx.query('select 1')),
})
createConsumer({
  source,
  inbox,
  // @ts-expect-error -- the inbox has its own
  database,
  handler: () => undefined,
})
createConsumer({
  source,
  inbox,
  // @ts-expect-error -- the transactions of the inbox are clients of pg
  handler: async (tx: string) => tx,
})
createConsumer({
  source,
  // @ts-expect-error -- an inbox without a db opens no transactions
  inbox: detached,
  handler: () => undefined,
})
createConsumer({
  source,
  name: 'mail',
  // @ts-expect-error -- only with a transaction
  guard: () => 'apply',
  handler: () => undefined,
})
createConsumer({
  // @ts-expect-error -- no source
  source: 'orders',
  inbox,
  handler: () => undefined,
})
declare const orders: Inbox<PoolClient, InboxMessage<{ order: string }>>
createConsumer({
  source,
  // @ts-expect-error -- an inbox for other messages
  inbox: orders,
  handler: () => undefined,
})
// A value that may be absent determines no kind of consumer, and so no kind of handler.
declare const perhaps: {
  readonly inbox: typeof inbox | undefined
  readonly database: typeof database | undefined
  readonly batch: { maxSize: number } | undefined
}
createConsumer({
  source,
  name: 'mail',
  // @ts-expect-error -- may be absent
  inbox: perhaps.inbox,
  handler: () => undefined,
})
createConsumer({
  source,
  name: 'mail',
  // @ts-expect-error -- may be absent
  database: perhaps.database,
  handler: () => undefined,
})
createConsumer({
  source,
  name: 'mail',
  // @ts-expect-error -- may be absent
  batch: perhaps.batch,
  handler: () => undefined,
})
// Explicit type arguments work, too.
createConsumer<PoolClient, { total: number }>({
  source,
  inbox,
  batch: { maxSize: 5 },
  handler: async (tx, messages) => void (await tx.query('select $1', [messages[0]!.payload.total])),
})
createConsumer<{ total: number }>({ source, name: 'mail', handler: ({ payload }) => payload.total })
// @ts-expect-error -- no handler
createConsumer({ source, inbox })
