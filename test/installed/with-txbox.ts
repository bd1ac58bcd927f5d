// A user's program with nothing but `npm install txbox pg`: every entry that needs no other package.
import { Pool } from 'pg'
import { createGarbageCollector, createInbox, createOutbox, createRelay, publishEach } from 'txbox'
import type { InboxMessage, Logger, Publisher } from 'txbox'
import { mysql } from 'txbox/mysql'
import { migrate, postgres } from 'txbox/postgres'

const pool = new Pool({ connectionString: process.env['DATABASE_URL'] })
await migrate(pool)
const database = postgres({ db: pool })
const inbox = createInbox({ database, consumer: 'installed' })
const outbox = createOutbox({ database })
const message: InboxMessage<{ cents: number }> = { id: 'm1', payload: { cents: 500 } }
const outcomes: string[] = []
for (let delivery = 0; delivery < 2; delivery++) {
  const { status } = await inbox.run(message, async (tx, { payload }) => {
    const { rows } = await tx.query<{ cents: number }>('select $1::int as cents', [payload.cents])
    await outbox.publish(tx, { topic: 'booked', payload: { cents: rows[0]!.cents } })
  })
  outcomes.push(status)
}
const publisher: Publisher = publishEach(async (booked) => void outcomes.push(booked.text()))
const logger: Logger | undefined = undefined
const relay = createRelay({ database, publisher, logger })
await relay.drain()
await relay.stop()
await createGarbageCollector({ database }).runOnce()
await pool.end()

// @ts-expect-error a pool is no transaction
void (() => outbox.publish(pool, { topic: 'booked', payload: {} }))
// @ts-expect-error without connections there is no run
void (() => createInbox({ database: mysql(), consumer: 'installed' }).run(message, () => undefined))

console.log(outcomes.join(' '))
