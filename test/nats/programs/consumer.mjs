// A consumer whose effects are rows. It is killed in the middle of its work.
import { Pool } from 'pg'
import { createConsumer } from '@txbox/consumer'
import { createInbox } from '@txbox/inbox'
import { natsPublisher, natsSource } from '@txbox/nats'
import { postgres } from '@txbox/postgres'

const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 6 })
pool.on('error', console.error)
const { BROKER_URL: servers, STREAM: stream, CONSUMER: name } = process.env
const consumer = createConsumer({
  source: natsSource({ servers, stream, consumer: name, declare: { ackWaitMs: 1000 } }),
  inbox: createInbox({ database: postgres({ db: pool }), consumer: name }),
  deadLetters: natsPublisher({ servers }),
  deadLetterTopic: 'dead',
  concurrency: 5,
  retry: { attempts: 1000, delayMs: () => 20 },
  handler: async (tx, { payload }) => {
    await tx.query('insert into public.effects (name) values ($1)', [`${name} ${payload.n}`])
    // Some fail after their effect.
    if (Math.random() < 0.1) throw new Error('failed')
  },
})
consumer.on('retried', () => undefined)
consumer.on('lost', () => undefined)
consumer.on('error', ({ error }) => process.send?.(String(error)))
consumer.on('unavailable', ({ error }) => process.send?.(String(error)))
process.once('message', () => void consumer.stop().then(() => process.exit()))
process.once('disconnect', () => process.exit())
await consumer.start()
