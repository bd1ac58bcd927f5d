// An order and its message are committed together; a relay hands committed messages to a function, in order per key.
import { setTimeout as pause } from 'node:timers/promises'
import { createOutbox, createRelay, publishEach } from 'txbox'
import { migrate, postgres } from 'txbox/postgres'
import { Pool } from 'pg'

interface Topics {
  orders: { order: string; status: 'placed' | 'paid' }
}
const pool = new Pool({ connectionString: process.env['DATABASE_URL'], max: 6 })
pool.on('error', console.error)
await migrate(pool)
await pool.query('create table orders (id text primary key, status text not null)')
const database = postgres({ db: pool })
const outbox = createOutbox<Topics>({ database, notify: true })

// Any function is a publisher. Send message.id along: a resend has the same one.
let refusals = 1
const published: string[] = []
const publisher = publishEach(async (message) => {
  const { order, status } = message.json<Topics['orders']>()
  if (order === 'o1' && refusals-- > 0) throw new Error('try again, please') // later messages of o1 wait for it
  published.push(`${order} ${status}`)
})
const relay = createRelay({ database, publisher, wakeup: 'notify' })
relay.on('parked', ({ key }) => console.log('waits for another attempt:', key))
await relay.start()

const change = (order: string, status: 'placed' | 'paid', rolledBack = false): Promise<void> =>
  database.transact(async (tx) => {
    const upsert =
      'insert into orders values ($1, $2) on conflict (id) do update set status = excluded.status'
    await tx.query(upsert, [order, status])
    await outbox.publish(tx, { topic: 'orders', key: order, payload: { order, status } })
    if (rolledBack) throw new Error('no stock')
  })
await change('o1', 'placed')
await change('o1', 'paid')
await change('o2', 'placed')
await change('o3', 'placed', true).catch(() => undefined) // nothing was stored, so nothing is published

while (published.length < 3) await pause(20)
await relay.stop() // finishes what is in flight, and releases its leases
for (const line of published.toSorted()) console.log(line)
console.log('in order:', published.indexOf('o1 placed') < published.indexOf('o1 paid'))
await pool.end()

// prints:
// waits for another attempt: o1
// o1 paid
// o1 placed
// o2 placed
// in order: true
