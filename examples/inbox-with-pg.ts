// A payment is booked once, however often its message is delivered. Two ways to give the inbox a transaction.
import { createInbox, isSettled } from 'txbox'
import { migrate, postgres } from 'txbox/postgres'
import { Pool } from 'pg'

const pool = new Pool({ connectionString: process.env['DATABASE_URL'] })
pool.on('error', console.error)
await migrate(pool)
await pool.query('create table accounts (id text primary key, cents integer not null)')
await pool.query("insert into accounts values ('sales', 0)")

const inbox = createInbox({ database: postgres({ db: pool }), consumer: 'billing' })
const payment = { id: 'm1', payload: { cents: 500 } }
const book = 'update accounts set cents = cents + $1 where id = $2'

// 1. The inbox opens the transaction, commits it, and repeats it after a deadlock.
for (let delivery = 1; delivery <= 2; delivery++) {
  const outcome = await inbox.run(payment, (tx, { payload }) => tx.query(book, [payload.cents, 'sales']))
  if (isSettled(outcome)) console.log(`delivery ${delivery}:`, outcome.status)
}

// 2. You open the transaction. If the handler throws, roll back: the next delivery runs the handler again.
const client = await pool.connect()
for (const fails of [true, false]) {
  await client.query('begin')
  try {
    const { status } = await inbox.process(
      client,
      { id: 'm2', payload: { cents: 300 } },
      async (tx, { payload }) => {
        await tx.query(book, [payload.cents, 'sales'])
        if (fails) throw new Error('the exchange rate is missing')
      },
    )
    await client.query('commit')
    console.log('m2:', status)
  } catch (error) {
    await client.query('rollback')
    console.log('m2:', (error as Error).message)
  }
}
client.release()

const { rows } = await pool.query<{ cents: number }>('select cents from accounts')
console.log('booked:', rows[0]?.cents)
await pool.end()

// prints:
// delivery 1: processed
// delivery 2: duplicate
// m2: the exchange rate is missing
// m2: processed
// booked: 800
