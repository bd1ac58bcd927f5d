import type { Kysely } from 'kysely'
import type { Pool, PoolClient } from 'pg'
import { createConsumer, type ConsumerContext } from '@txbox/consumer'
import { createInbox } from '@txbox/inbox'
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
