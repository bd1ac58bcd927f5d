// What an operator does from a program: look at migrations, apply them, find messages that gave up, and put them back.
import { PermanentError, createDeadLetters, createOutbox, createRelay, publishEach } from 'txbox'
import { migrate, migrationSql, pendingMigrations, postgres } from 'txbox/postgres'
import { Pool } from 'pg'

const pool = new Pool({ connectionString: process.env['DATABASE_URL'], max: 6 })
pool.on('error', console.error)
const schema = 'messaging' // instead of txbox; give it to every call that names tables

const pending = await pendingMigrations(pool, { schema })
const { applied } = await migrate(pool, { schema }) // several services may call it at once
console.log('applied all that was pending:', applied.join() === pending.map(({ name }) => name).join())
console.log('still pending:', (await pendingMigrations(pool, { schema })).length)
// For a review, or for psql, Flyway or Atlas: the same as SQL.
console.log('as SQL:', migrationSql(schema).length === applied.length)

const database = postgres({ db: pool, schema })
const outbox = createOutbox({ database })
await database.transact((tx) =>
  outbox.publish(tx, [
    { topic: 'orders', key: 'o1', payload: { order: 'o1', country: 'Atlantis' } },
    { topic: 'orders', key: 'o2', payload: { order: 'o2', country: 'France' } },
  ]),
)
const countries = new Set(['France'])
const publisher = publishEach(async (message) => {
  const { order, country } = message.json<{ order: string; country: string }>()
  if (!countries.has(country)) throw new PermanentError(`no tax rate for ${country}`)
  console.log('published:', order)
})
const relay = createRelay({ database, publisher })
relay.on('dead-lettered', ({ key }) => console.log('gave up:', key))
await relay.drain()

const deadLetters = createDeadLetters({ database })
for (const { topic, key, error } of await deadLetters.list()) console.log('dead letter:', topic, key, error)
countries.add('Atlantis') // the cause is gone
const putBack = await deadLetters.redrive({ topic: 'orders' })
console.log('put back:', putBack.length)
await relay.drain()
await relay.stop()
await pool.end()

// prints:
// applied all that was pending: true
// still pending: 0
// as SQL: true
// published: o2
// gave up: o1
// dead letter: orders o1 no tax rate for Atlantis
// put back: 1
// published: o1
