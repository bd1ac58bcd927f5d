import { PGlite } from '@electric-sql/pglite'
import { Kysely, PGliteDialect, sql } from 'kysely'
import { Migrator } from 'kysely/migration'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { createGarbageCollector } from '@txbox/gc'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { migrate, migrationProvider, pendingMigrations, postgres } from '@txbox/postgres'
import { createRelay, publishEach } from '@txbox/relay'

interface Tables {
  effects: { name: string }
}

const db = new Kysely<Tables>({ dialect: new PGliteDialect({ pglite: () => PGlite.create() }) })
const database = postgres({ db })
const inbox = createInbox({ database, consumer: 'c' })
const outbox = createOutbox({ database })

async function effects(): Promise<readonly string[]> {
  return (await db.selectFrom('effects').select('name').orderBy('name').execute()).map(({ name }) => name)
}

function deliver(id: string): Promise<{ status: string }> {
  return inbox.run({ id, payload: 1 }, async (tx) => {
    await tx.insertInto('effects').values({ name: id }).execute()
    await outbox.publish(tx, { topic: 't', key: 'k', payload: id })
  })
}

async function drain(): Promise<readonly string[]> {
  const published: string[] = []
  const publisher = publishEach(async (message) => void published.push(message.json<string>()))
  const relay = createRelay({ database, publisher })
  await relay.drain()
  await relay.stop()
  return published
}

beforeAll(async () => {
  const pending = await pendingMigrations(db)
  expect(pending.length).toBeGreaterThan(0)
  expect((await migrate(db)).applied).toEqual(pending.map(({ name }) => name))
  expect((await migrate(db)).applied).toEqual([])
  await sql`create table effects (name text not null)`.execute(db)
})
beforeEach(() => sql`truncate effects, txbox.inbox, txbox.outbox`.execute(db))
afterAll(() => db.destroy())

test('I1 I2 the first delivery takes effect, and a duplicate does not', async () => {
  expect((await deliver('a')).status).toBe('processed')
  expect((await deliver('a')).status).toBe('duplicate')
  expect(await effects()).toEqual(['a'])
  expect(await drain()).toEqual(['a'])
})

test('I2 O1 a handler that throws leaves neither a claim nor an effect nor a message', async () => {
  const refused = new Error('refused')
  const failing = inbox.run({ id: 'a', payload: 1 }, async (tx) => {
    await tx.insertInto('effects').values({ name: 'never' }).execute()
    await outbox.publish(tx, { topic: 't', payload: 'never' })
    throw refused
  })
  await expect(failing).rejects.toBe(refused)
  expect(await effects()).toEqual([])
  expect(await drain()).toEqual([])
  expect((await deliver('a')).status).toBe('processed')
})

test('I4 deliveries that begin together take turns, and one delivery of each message takes effect', async () => {
  const statuses = (await Promise.all(['a', 'b', 'a'].map(deliver))).map(({ status }) => status)
  expect(statuses.toSorted()).toEqual(['duplicate', 'processed', 'processed'])
  expect(await effects()).toEqual(['a', 'b'])
})

test('I13 a batch gives the handler the new messages', async () => {
  await deliver('a')
  const { outcomes, result } = await database.transact((tx) =>
    inbox.processBatch(
      tx,
      ['a', 'b', 'b'].map((id) => ({ id, payload: id })),
      (_, fresh) => fresh.map(({ payload }) => payload),
    ),
  )
  expect(outcomes.map(({ status }) => status)).toEqual(['duplicate', 'processed', 'duplicate'])
  expect(result).toEqual(['b'])
})

test('O3 O13 messages of a key are published in order, and their bytes are unchanged', async () => {
  const payloads = Array.from({ length: 20 }, (_, n) => Uint8Array.of(n, 0, 255, 128))
  await database.transact((tx) =>
    outbox.publish(
      tx,
      payloads.map((payload) => ({ topic: 't', key: 'k', payload })),
    ),
  )
  const published: Uint8Array[] = []
  const publisher = publishEach(async (message) => void published.push(Uint8Array.from(message.payload)))
  const relay = createRelay({ database, publisher })
  expect(await relay.drain()).toMatchObject({ published: 20 })
  await relay.stop()
  expect(published).toEqual(payloads)
})

test('G1 a collector removes expired claims', async () => {
  await deliver('a')
  await sql`update txbox.inbox set expires_at = clock_timestamp() - interval '1 second'`.execute(db)
  expect(await createGarbageCollector({ database }).runOnce()).toMatchObject({ inbox: 1, failures: 0 })
  expect((await deliver('a')).status).toBe('processed')
})

test('a Migrator of Kysely makes the same tables', async () => {
  const { error, results } = await new Migrator({
    db,
    provider: migrationProvider({ schema: 'elsewhere' }),
  }).migrateToLatest()
  expect(error).toBeUndefined()
  expect(results?.length).toBeGreaterThan(0)
  expect(await pendingMigrations(db, { schema: 'elsewhere' })).toEqual([])
})
