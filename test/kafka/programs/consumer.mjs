// A member of a group whose effects are rows. It is killed in the middle of its work.
import { Pool } from 'pg'
import { createConsumer } from '@txbox/consumer'
import { createInbox } from '@txbox/inbox'
import { kafkaPublisher, kafkaSource } from '@txbox/kafka'
import { postgres } from '@txbox/postgres'

const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 6 })
pool.on('error', console.error)
const { BROKER, TOPIC, GROUP } = process.env
const consumer = createConsumer({
  source: kafkaSource({
    brokers: [BROKER],
    topics: [TOPIC],
    groupId: GROUP,
    sessionTimeoutMs: 2000,
    connectTimeoutMs: 3000,
  }),
  inbox: createInbox({ database: postgres({ db: pool }), consumer: GROUP }),
  deadLetters: kafkaPublisher({ brokers: [BROKER] }),
  concurrency: 5,
  logger: false,
  retry: { attempts: 1000, delayMs: () => 20 },
  handler: async (tx, { payload: { key, n } }) => {
    await tx.query('insert into public.effects (name) values ($1)', [`${GROUP} ${key} ${n}`])
    // Some fail after their effect.
    if (Math.random() < 0.05) throw new Error('failed')
  },
})
process.once('message', () => void consumer.stop().then(() => process.exit()))
process.once('disconnect', () => process.exit())
await consumer.start()
process.send('started')
