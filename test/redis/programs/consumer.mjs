// A consumer whose effects are rows. It is killed in the middle of its work.
import { Pool } from 'pg'
import { createConsumer } from '@txbox/consumer'
import { createInbox } from '@txbox/inbox'
import { postgres } from '@txbox/postgres'
import { redisSource } from '@txbox/redis'

const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 6 })
pool.on('error', console.error)
const { REDIS_URL: url, STREAM: stream, CONSUMER: name } = process.env
const consumer = createConsumer({
  source: redisSource({ url, stream, group: name, leaseMs: 1000, confirmTimeoutMs: 2000 }),
  inbox: createInbox({ database: postgres({ db: pool }), consumer: name }),
  concurrency: 5,
  retry: { attempts: 1000, delayMs: () => 20 },
  handler: async (tx, { payload }) => {
    await tx.query('insert into public.effects (name) values ($1)', [`${name} ${payload.n}`])
    // Some fail after their effect.
    if (Math.random() < 0.1) throw new Error('failed')
  },
})
consumer.on('retried', () => undefined)
consumer.on('unavailable', () => undefined)
process.once('message', () => void consumer.stop().then(() => process.exit()))
process.once('disconnect', () => process.exit())
await consumer.start()
