// The part of txbox that speaks Kysely, and the long names beside the short ones.
import { createInbox as createInboxByItsLongName } from '@txbox/inbox'
import { postgres as postgresByItsLongName } from '@txbox/postgres'
import { rabbitmqPublisher } from '@txbox/rabbitmq'
import { Kysely, PostgresDialect } from 'kysely'
import { Pool } from 'pg'
import { createInbox, createRelay } from 'txbox'
import { postgres } from 'txbox/postgres'
import { updateVersioned } from 'txbox/versioning'

interface Tables {
  versioned_orders: { id: string; status: 'pending' | 'paid'; version: number }
}
const pool = new Pool({ connectionString: process.env['DATABASE_URL'] })
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) })
await pool.query(
  'create table if not exists versioned_orders (id text primary key, status text not null, version int not null)',
)
await pool.query(
  "insert into versioned_orders values ('o1', 'pending', 1) on conflict (id) do update set version = 1",
)
const { version } = await db
  .transaction()
  .execute((tx) =>
    updateVersioned(tx, 'versioned_orders', { where: { id: 'o1' }, expected: 1, set: { status: 'paid' } }),
  )

// The packages under their long names give a relay what the short ones take, and the other way round.
const publisher = rabbitmqPublisher({ url: 'amqp://localhost' })
const relay = createRelay({ database: postgresByItsLongName({ db }), publisher })
await relay.stop()
const inbox = createInboxByItsLongName({ database: postgres({ db }), consumer: 'installed-long' })
const { status } = await inbox.run({ id: `m${Date.now()}`, payload: {} }, () => undefined)
console.log(version, status, createInbox === createInboxByItsLongName)
await db.destroy()
