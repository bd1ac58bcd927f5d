// The packages under their own names, without txbox.
import { Pool } from 'pg'
import { createGarbageCollector } from '@txbox/gc'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { migrate, postgres } from '@txbox/postgres'
import { createRelay, publishEach } from '@txbox/relay'
import { publisherContract } from '@txbox/testing'
import { fromWebhook, webhookPublisher } from '@txbox/webhook'

const pool = new Pool({ connectionString: process.env['DATABASE_URL'] })
await migrate(pool)
const database = postgres({ db: pool })
const inbox = createInbox({ database, consumer: 'long-names' })
const outbox = createOutbox({ database })
const { status } = await inbox.run({ id: 'm1', payload: { cents: 500 } }, (tx, { payload }) =>
  outbox.publish(tx, { topic: 'booked', payload }),
)
const relay = createRelay({
  database,
  publisher: publishEach(async ({ topic }) => console.log(status, topic)),
})
await relay.drain()
await relay.stop()
await createGarbageCollector({ database }).runOnce()
const cases = publisherContract({ ordering: 'per-key' }, () => Promise.reject(new Error('not opened')))
if (cases.length === 0 || typeof fromWebhook !== 'function') throw new Error('names are missing')
await webhookPublisher({ url: 'https://shop.example' }).close?.()
await pool.end()
