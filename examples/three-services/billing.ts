// Books each change of an order once, and publishes it to the read model in the same transaction.
import { rabbitmqPublisher, rabbitmqSource } from '@txbox/rabbitmq'
import { createInbox, createOutbox, createRelay } from 'txbox'
import { createConsumer } from 'txbox/consumer'
import { migrate, postgres } from 'txbox/postgres'
import { AMQP_URL, BILLING, VIEW, pool, type OrderChanged } from './service.ts'

await migrate(pool, { schema: 'billing' })
await pool.query('create table if not exists billing.bookings (order_id text, version int, cents int)')

const database = postgres({ db: pool, schema: 'billing' })
const outbox = createOutbox<Record<string, OrderChanged>>({ database })
const publisher = rabbitmqPublisher({ url: AMQP_URL, exchange: '' })
await createRelay({ database, publisher, leaseMs: 2000 }).start()

const consumer = createConsumer({
  source: rabbitmqSource<OrderChanged>({
    ...{ url: AMQP_URL, queue: BILLING },
    // In your service, use an exchange with a queue for dead letters.
    declare: { type: 'quorum', deadLetterExchange: 'amq.fanout' },
  }),
  inbox: createInbox({ database, consumer: 'billing' }),
  handler: async (tx, { payload }) => {
    const { order, version, cents } = payload
    await tx.query('insert into billing.bookings values ($1, $2, $3)', [order, version, cents])
    await outbox.publish(tx, { topic: VIEW, key: order, payload })
  },
})
await consumer.start()
process.send?.('ready')
