import { setTimeout as sleep } from 'node:timers/promises'
import { createConsumer, type Consumer } from '@txbox/consumer'
import { DatabaseUnavailableError } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { migrate, postgres } from '@txbox/postgres'
import { createQueue, queueSource } from '@txbox/queue'
import { createRelay, publishEach } from '@txbox/relay'
import type { Pool, PoolClient } from 'pg'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { useDatabaseUrl } from '../cli/use-database-url.ts'
import { receivers, storeIn } from '../support/subjects/receivers.ts'
import { until } from '../support/worlds/until.ts'
import { PgbouncerUnderTest, type PoolMode } from './pgbouncer-under-test.ts'

const database = useDatabaseUrl()
const effects =
  'create table if not exists effects (seq bigint generated always as identity, name text not null)'

async function effectsOf(prefix: string): Promise<string[]> {
  const { rows } = await database.sql(`select name from effects where name like '${prefix}%' order by seq`)
  return rows.map(({ name }) => String(name).slice(prefix.length))
}

function record(tx: PoolClient, name: string): Promise<unknown> {
  return tx.query('insert into effects (name) values ($1)', [name])
}

async function publish(pool: Pool, messages: readonly { key: string; payload: number }[]): Promise<void> {
  const outbox = createOutbox({ database: postgres() })
  for (const message of messages) {
    const client = await pool.connect()
    try {
      await client.query('begin')
      await outbox.publish(client, { topic: 't', ...message })
      await client.query('commit')
    } finally {
      client.release()
    }
  }
}

function numbered(keys: number, each: number): { key: string; payload: number }[] {
  return Array.from({ length: keys * each }, (_, n) => ({
    key: `k${n % keys}`,
    payload: Math.floor(n / keys),
  }))
}

/** Whether the numbers of each key, without repetitions, are all there and ascend. */
function expectInOrder(seen: readonly { key: string; payload: number }[], keys: number, each: number): void {
  for (let key = 0; key < keys; key += 1) {
    const numbers = seen.filter((message) => message.key === `k${key}`).map(({ payload }) => payload)
    // A message that is published again comes before the next message of its key, or is the last one again.
    expect([...new Set(numbers)]).toEqual(Array.from({ length: each }, (_, n) => n))
  }
}

// Session mode keeps a server connection for each connection to PgBouncer.
const MODES: readonly (readonly [PoolMode, number])[] = [
  ['transaction', 3],
  ['session', 40],
]
for (const [mode, connections] of MODES) {
  describe(`${mode} mode`, () => {
    const started = async (): Promise<PgbouncerUnderTest> => {
      const pgbouncer = await PgbouncerUnderTest.started(database.url, mode, connections)
      await migrate(pgbouncer.pool({ max: 1 }))
      await database.sql(effects)
      return pgbouncer
    }

    for (const pipeline of [false, true]) {
      test(`I1 I2 messages that are delivered twice, side by side, have one effect${pipeline ? ', with pipeline' : ''}`, async () => {
        const pgbouncer = await started()
        const prefix = `${mode} ${pipeline} `
        const pool = pgbouncer.pool({ max: 8, pipeline })
        const inbox = createInbox({ database: postgres({ db: pool }), consumer: prefix })
        const ids = Array.from({ length: 60 }, (_, n) => String(n))
        const outcomes = await Promise.all(
          [...ids, ...ids].map((id) => inbox.run({ id }, (tx: PoolClient) => record(tx, prefix + id))),
        )
        expect(outcomes.filter(({ status }) => status === 'processed')).toHaveLength(ids.length)
        expect((await effectsOf(prefix)).toSorted()).toEqual(ids.toSorted())
      })

      test(`a statement of a handler that fails rolls back, and is no outage${pipeline ? ', with pipeline' : ''}`, async () => {
        const pgbouncer = await started()
        const prefix = `${mode} ${pipeline} failing `
        const pool = pgbouncer.pool({ max: 4, pipeline })
        const inbox = createInbox({ database: postgres({ db: pool }), consumer: prefix })
        let attempts = 0
        const handle = async (tx: PoolClient): Promise<void> => {
          await record(tx, prefix)
          attempts += 1
          if (attempts % 3 !== 0) {
            await tx.query("do $$ begin raise exception 'conflict' using errcode = '40001'; end $$")
          }
        }
        for (let n = 0; n < 20; n += 1) {
          const error = await inbox.run({ id: String(n) }, handle).then(
            () => undefined,
            (reason: unknown) => reason,
          )
          expect(error).not.toBeInstanceOf(DatabaseUnavailableError)
          expect(error).toBeUndefined()
        }
        expect(await effectsOf(prefix)).toHaveLength(20)
        expect(attempts).toBe(60)
      })
    }

    test('O1 O2 two relays publish all messages in order while PgBouncer is killed and started again', async () => {
      const pgbouncer = await started()
      const seen: { key: string; payload: number }[] = []
      const relays = [1, 2].map(() =>
        createRelay({
          database: postgres({ db: pgbouncer.pool() }),
          publisher: publishEach(async (message) => {
            await sleep(1)
            seen.push({ key: message.key!, payload: Number(Buffer.from(message.payload).toString()) })
          }),
          leaseMs: 3000,
        }),
      )
      onTestFinished(async () => {
        await Promise.all(relays.map((relay) => relay.stop()))
      })
      await publish(pgbouncer.pool({ max: 2 }), numbered(10, 10))
      await Promise.all(relays.map((relay) => relay.start()))
      await until(
        async () => seen.length > 10,
        () => `some of ${seen.length} messages are published`,
      )
      await pgbouncer.kill()
      await sleep(100)
      await pgbouncer.start()
      const left = async (): Promise<number> =>
        Number((await database.sql('select count(*) as n from txbox.outbox')).rows[0]?.n)
      await until(
        async () => (await left()) === 0,
        () => `all messages are settled: ${seen.length} were published`,
      )
      expectInOrder(seen, 10, 10)
    })

    test('Q1 Q4 two consumers of a queue handle each message once, in the order of its key, while PgBouncer is killed and started again', async () => {
      const pgbouncer = await started()
      const prefix = `${mode} queue `
      const name = mode
      const sender = pgbouncer.pool({ max: 1 })
      const queue = createQueue({ database: postgres({ db: sender }), name })
      const client = await sender.connect()
      await client.query('begin')
      await queue.send(
        client,
        numbered(8, 15).map(({ key, payload }) => ({ key, payload: `${key} ${payload}` })),
      )
      await client.query('commit')
      client.release()
      const consumers = [1, 2].map((): Consumer => {
        const own = postgres({ db: pgbouncer.pool() })
        return createConsumer({
          source: queueSource(createQueue({ database: own, name, visibilityTimeoutMs: 5000 })),
          name: prefix,
          database: own,
          concurrency: 4,
          handler: (tx, { payload }) => record(tx, prefix + String(payload)),
        })
      })
      onTestFinished(async () => {
        await Promise.all(consumers.map((consumer) => consumer.stop()))
      })
      await Promise.all(consumers.map((consumer) => consumer.start()))
      await until(
        async () => (await effectsOf(prefix)).length > 10,
        () => 'some messages are handled',
      )
      await pgbouncer.kill()
      await sleep(100)
      await pgbouncer.start()
      await until(
        async () => (await effectsOf(prefix)).length >= 120,
        async () => `all messages are handled: ${(await effectsOf(prefix)).length}`,
        55_000,
      )
      const handled = (await effectsOf(prefix)).map((effect) => {
        const [key, payload] = effect.split(' ') as [string, string]
        return { key, payload: Number(payload) }
      })
      expect(handled).toHaveLength(120)
      expectInOrder(handled, 8, 15)
    })
  })
}

test('transaction mode: a relay that cannot listen reports an error and polls, and one with a listening address of its own is woken', async () => {
  const pgbouncer = await PgbouncerUnderTest.started(database.url, 'transaction', 3)
  const pool = pgbouncer.pool()
  await migrate(pool)
  const seen: string[] = []
  const errors: string[] = []
  const relay = createRelay({
    database: postgres({ db: pool, listenCheckIntervalMs: 100 }),
    publisher: publishEach((message) => void seen.push(message.id)),
    wakeup: 'notify',
    pollIntervalMs: { min: 50, max: 50 },
  })
  relay.on('error', ({ error }) => errors.push(String(error)))
  onTestFinished(() => relay.stop())
  await relay.start()
  await until(
    async () => errors.length > 0,
    () => 'the relay reports that it cannot listen',
  )
  await publish(pool, [{ key: 'k', payload: 1 }])
  await until(
    async () => seen.length === 1,
    () => 'the relay polls',
  )
  await relay.stop()

  const woken = createRelay({
    database: postgres({ db: pool, listen: database.url }),
    publisher: publishEach((message) => void seen.push(message.id)),
    wakeup: 'notify',
    pollIntervalMs: { min: 30_000, max: 30_000 },
    leaseMs: 60_000,
  })
  onTestFinished(() => woken.stop())
  const leases = { acquired: 0 }
  woken.on('lease-acquired', () => (leases.acquired += 1))
  await woken.start()
  await until(
    async () => leases.acquired === 16,
    () => `the relay has all leases: ${leases.acquired}`,
  )
  const client = await pool.connect()
  await client.query('begin')
  await createOutbox({ database: postgres(), notify: true }).publish(client, { topic: 't', payload: 2 })
  await client.query('commit')
  client.release()
  await until(
    async () => seen.length === 2,
    () => 'the relay is woken',
  )
})

test.each(receivers)(
  'U1 transaction mode: by default, no connection listens through PgBouncer; that is said once, and messages are found by polling: $name',
  async (receiver) => {
    const pgbouncer = await PgbouncerUnderTest.started(database.url, 'transaction', 6)
    const pool = pgbouncer.pool()
    await migrate(pool)
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
    onTestFinished(() => warn.mockRestore())
    const warned = (): string[] =>
      warn.mock.calls.map(([text]) => String(text)).filter((text) => text.includes('goes through a pooler'))
    const got = await receiver.start({ database: postgres({ db: pool }) })
    await until(
      async () => warned().length > 0,
      () => 'the pooler is said',
    )
    for (const payload of [1, 2]) {
      await storeIn(pool, receiver, payload)
      await until(
        async () => got.includes(payload),
        () => `message ${payload} is found`,
      )
    }
    expect(warned()).toHaveLength(1)
    const { rows } = await database.sql("select from pg_stat_activity where query like 'listen %'")
    expect(rows).toEqual([])
  },
)

test('statement mode is refused, and nothing is written', async () => {
  const direct = await PgbouncerUnderTest.started(database.url, 'transaction', 2)
  await migrate(direct.pool({ max: 1 }))
  const pgbouncer = await PgbouncerUnderTest.started(database.url, 'statement', 3)
  const inbox = createInbox({ database: postgres({ db: pgbouncer.pool() }), consumer: 'statement' })
  await expect(inbox.run({ id: '1' }, () => undefined)).rejects.toThrow(
    /transaction blocks not allowed|statement/i,
  )
  await expect(migrate(pgbouncer.pool(), { schema: 'other' })).rejects.toThrow(/transaction|statement/i)
  const { rows } = await database.sql("select from txbox.inbox where consumer = 'statement'")
  expect(rows).toEqual([])
})
