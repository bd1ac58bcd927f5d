// A read model that is right although its changes come twice and in any order: each change names the version before it and
// its own, and a change whose predecessor has not come yet waits in the database.
import { Kysely, PostgresDialect } from 'kysely'
import { applyVersion, createVersionBuffer, type VersionedMessage } from 'txbox/versioning'
import { createInbox } from 'txbox'
import { migrate, postgres } from 'txbox/postgres'
import { Pool } from 'pg'

interface Change {
  readonly order: string
  readonly from: number
  readonly to: number
  readonly status: string
}
interface Tables {
  orders: { id: string; status: string; version: number }
}
const pool = new Pool({ connectionString: process.env['DATABASE_URL'] })
pool.on('error', console.error)
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
await migrate(db)
await pool.query('create table orders (id text primary key, status text not null, version integer not null)')
await pool.query("insert into orders values ('o1', 'placed', 1)")

const database = postgres({ db })
const inbox = createInbox({ database, consumer: 'order-status' })
const buffer = createVersionBuffer({
  database,
  consumer: 'order-status',
  firstVersion: 1, // of an order that has just been placed
  apply: async (tx, { key, from, to, payload }: VersionedMessage<Change>) => {
    await applyVersion(tx, 'orders', { where: { id: key }, from, to, set: { status: payload.status } })
  },
})

const [paid, packed, sent] = ['paid', 'packed', 'sent'].map((status, i) => ({
  id: `m${i}`,
  payload: { order: 'o1', from: i + 1, to: i + 2, status },
}))
for (const message of [sent!, paid!, paid!, packed!]) {
  const outcome = await inbox.run(message, (tx, { payload: change }) =>
    buffer.process(tx, { key: change.order, from: change.from, to: change.to, payload: change }),
  )
  const { status, version } = await db.selectFrom('orders').selectAll().executeTakeFirstOrThrow()
  const came = outcome.status === 'processed' ? outcome.result.status : outcome.status
  console.log(`${message.payload.status}: ${came}; the order is ${status}, version ${version}`)
}
await db.destroy()

// prints:
// sent: waiting; the order is placed, version 1
// paid: applied; the order is paid, version 2
// paid: duplicate; the order is paid, version 2
// packed: applied; the order is sent, version 4
