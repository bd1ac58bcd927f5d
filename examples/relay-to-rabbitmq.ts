// From an outbox through RabbitMQ into an inbox: published with confirms, delivered twice, processed once.
import { randomUUID } from 'node:crypto'
import { fromRabbitmq, rabbitmqPublisher } from '@txbox/rabbitmq'
import { connect, type ConsumeMessage } from 'amqplib'
import { createInbox, createOutbox, createRelay } from 'txbox'
import { migrate, postgres } from 'txbox/postgres'
import { Pool } from 'pg'

const url = process.env['AMQP_URL'] ?? 'amqp://localhost'
const pool = new Pool({ connectionString: process.env['DATABASE_URL'], max: 6 })
pool.on('error', console.error)
await migrate(pool)
const database = postgres({ db: pool })

// The relay creates the exchange; queues and bindings are yours.
const exchange = `txbox-example-${randomUUID()}`
const connection = await connect(url)
const channel = await connection.createChannel()
await channel.assertExchange(exchange, 'topic', { durable: true, autoDelete: true })
const { queue } = await channel.assertQueue('', { exclusive: true })
await channel.bindQueue(queue, exchange, 'orders.*')

const outbox = createOutbox({ database })
await database.transact((tx) =>
  outbox.publish(tx, { topic: 'orders.placed', key: 'o1', payload: { order: 'o1', cents: 500 } }),
)
const publisher = rabbitmqPublisher({ url, exchange, assertExchange: false })
const relay = createRelay({ database, publisher })
console.log('published:', (await relay.drain()).published)
await relay.stop() // also closes the publisher

const inbox = createInbox({ database, consumer: 'billing' })
const twice = Promise.withResolvers<void>()
let deliveries = 0
async function handle(delivery: ConsumeMessage): Promise<void> {
  const message = fromRabbitmq<{ order: string; cents: number }>(delivery)
  const { status } = await inbox.run(message, (tx) => tx.query('select 1')) // your effect, in tx
  console.log(message.payload.order, status)
  if (++deliveries === 1) return channel.nack(delivery) // as if the connection had broken before the ack
  channel.ack(delivery)
  twice.resolve()
}
await channel.consume(queue, (delivery) => {
  if (delivery !== null) handle(delivery).catch(twice.reject)
})
await twice.promise
await connection.close()
await pool.end()

// prints:
// published: 1
// o1 processed
// o1 duplicate
