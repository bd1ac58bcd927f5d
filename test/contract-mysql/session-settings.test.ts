import { createPool, type Pool } from 'mysql2/promise'
import { describe, expect, onTestFinished, test } from 'vitest'
import { InvalidOptionError, portsKey } from '@txbox/core'
import { createGarbageCollector } from '@txbox/gc'
import { createInbox } from '@txbox/inbox'
import { migrate, mysql, pendingMigrations } from '@txbox/mysql'
import { createOutbox } from '@txbox/outbox'
import { createQueue } from '@txbox/queue'
import { createDeadLetters, createRelay } from '@txbox/relay'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'
import { Broker, rejected } from '../support/worlds/broker.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

/** A pool whose connections have this setting. */
function poolWith(setting: string): Pool {
  const pool = createPool({ uri: outbox.url(), connectionLimit: 8 })
  pool.pool.on('connection', (connection) => void connection.query(setting, () => undefined))
  onTestFinished(() => pool.end())
  return pool
}

const keys = Array.from({ length: 30 }, (_, n) => `key ${n}`)

describe('sql_select_limit and max_join_size', () => {
  const limited = (): Pool => poolWith('set session sql_select_limit = 1, max_join_size = 1')

  test('O1 O4 the relay publishes, parks and releases all messages of many keys', async () => {
    const database = mysql({ db: limited() })
    const messages = keys.flatMap((key) => [1, 2, 3].map((payload) => ({ topic: 'a', key, payload })))
    const stored = await database.transact((tx) => createOutbox({ database }).publish(tx, messages))
    const broker = new Broker()
    const publisher = broker.publisher({
      respond: (call) =>
        call.messages.map((message) =>
          message.attempt === 1 && message.text() === '1'
            ? rejected({ retryAfterMs: 1 })
            : call.accept(message),
        ),
    })
    const relay = createRelay({ database, publisher, pollIntervalMs: { min: 2, max: 20 }, logger: false })
    const errors: unknown[] = []
    relay.on('error', ({ error }) => void errors.push(error))
    await relay.start()
    onTestFinished(() => relay.stop({ timeoutMs: 500 }))
    await outbox.settled()
    for (const key of keys) {
      const ids = messages.flatMap((message, n) => (message.key === key ? [stored[n]!.id] : []))
      expect(broker.ids(key)).toEqual(ids)
    }
    expect(errors).toEqual([])
  })

  test('O5 G1 dead letters are listed and put back, and the collector removes what has expired', async () => {
    const database = mysql({ db: limited() })
    await database.transact((tx) =>
      createOutbox({ database }).publish(
        tx,
        keys.map((key) => ({ topic: 'a', key, payload: 1 })),
      ),
    )
    const broker = new Broker()
    const publisher = broker.publisher({
      respond: (call) => call.messages.map(() => rejected({ retryable: false })),
    })
    const relay = createRelay({ database, publisher, logger: false })
    expect(await relay.drain()).toMatchObject({ deadLettered: 30 })
    await relay.stop()
    const deadLetters = createDeadLetters({ database, by: 'test' })
    const dead = await deadLetters.list({ topic: 'a', limit: 50 })
    expect(dead.length).toBe(30)
    expect(await deadLetters.redrive({ ids: dead.slice(0, 20).map(({ id }) => id) })).toHaveLength(20)
    const inbox = createInbox({ database, consumer: 'limited', retentionMs: 1000 })
    for (const id of keys)
      expect(await inbox.run({ id, payload: 1 }, () => undefined)).toMatchObject({ status: 'processed' })
    await outbox.sql("update txbox_inbox set expires_at = '2020-01-01'")
    await outbox.sql("update txbox_parked set dead_at = '2020-01-01' where dead_at is not null")
    const collector = createGarbageCollector({ database, logger: false })
    expect(await collector.runOnce()).toMatchObject({ inbox: 30, deadLetters: 10 })
  })

  test('I4 a batch finds all of its duplicates', async () => {
    const database = mysql({ db: limited() })
    const inbox = createInbox({ database, consumer: 'batches' })
    const messages = keys.map((id) => ({ id, payload: id }))
    for (const status of ['processed', 'duplicate']) {
      const { outcomes } = await database.transact((tx) => inbox.processBatch(tx, messages, () => undefined))
      expect(new Set(outcomes.map((outcome) => outcome.status))).toEqual(new Set([status]))
    }
  })

  test('Q1 a queue delivers all messages of many keys, and settles them', async () => {
    const database = mysql({ db: limited() })
    const queue = createQueue<string>({ database, name: 'limited' })
    await database.transact((tx) =>
      queue.send(
        tx,
        keys.flatMap((key) => [1, 2].map((n) => ({ key, payload: `${key}/${n}` }))),
      ),
    )
    const payloads: string[] = []
    while (payloads.length < 60) {
      const received = await queue.receive({ limit: 20 })
      payloads.push(...received.map(({ message }) => message.payload))
      await database.transact((tx) => Promise.all(received.map((one) => queue.delete(one, { tx }))))
    }
    expect(new Set(payloads).size).toBe(60)
  })

  test('the tables are migrated, and the settings of the connection are restored', async () => {
    const pool = createPool({ uri: outbox.url(), connectionLimit: 1 })
    onTestFinished(() => pool.end())
    await pool.query('set session sql_select_limit = 1, max_join_size = 1')
    const prefix = 'limited_'
    expect((await pendingMigrations(pool, { prefix })).length).toBeGreaterThan(5)
    expect((await migrate(pool, { prefix })).applied.length).toBeGreaterThan(5)
    expect((await migrate(pool, { prefix })).applied).toEqual([])
    const [rows] = await pool.query(
      'select @@sql_select_limit as a, @@max_join_size as b, @@sql_big_selects as c',
    )
    expect(rows).toEqual([{ a: 1, b: 1, c: 0 }])
  })
})

describe.each([
  ['SET NAMES binary', /character set 'binary' \(SET NAMES binary/],
  ['set session completion_type = CHAIN', /completion_type = 'CHAIN'.*completion_type at 'NO_CHAIN'/],
  ['set session completion_type = 2', /completion_type = 'RELEASE'/],
])('a pool with %s is refused with the name of the setting', (setting, reason) => {
  const refused = async (work: (pool: Pool) => Promise<unknown>): Promise<void> => {
    const error = await work(poolWith(setting)).then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(InvalidOptionError)
    expect(String(error)).toMatch(reason)
  }

  test('by a relay, by a queue, by dead letters, and by the collector', async () => {
    const publisher = new Broker().publisher()
    await refused((db) => createRelay({ database: mysql({ db }), publisher, logger: false }).start())
    await refused((db) => createRelay({ database: mysql({ db }), publisher, logger: false }).drain())
    await refused((db) => createQueue({ database: mysql({ db }), name: 'a' }).receive())
    await refused((db) => createDeadLetters({ database: mysql({ db }), by: 'test' }).list())
    await refused((db) => createGarbageCollector({ database: mysql({ db }), logger: false }).runOnce())
  })

  test('by migrations', async () => {
    await refused((db) => migrate(db))
    await refused((db) => pendingMigrations(db))
  })

  test('by the connection for the leases, if the setting was changed after the start', async () => {
    const pool = createPool({ uri: outbox.url(), connectionLimit: 8 })
    onTestFinished(() => pool.end())
    const database = mysql({ db: pool })
    await database[portsKey].checkSchema()
    pool.pool.on('connection', (connection) => void connection.query(setting, () => undefined))
    const leases = database[portsKey].leases()
    onTestFinished(() => leases.close())
    const held = await pool.getConnection()
    await refused(() => leases.holders('relay/'))
    held.release()
  })
})
