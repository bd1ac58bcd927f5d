import { randomUUID } from 'node:crypto'
import { Pool, type PoolClient } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createInbox, NotInTransactionError, TransactionAbortedError } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { migrate, postgres } from '@txbox/postgres'
import { createRelay, publishEach } from '@txbox/relay'
import { useDatabaseUrl } from '../cli/use-database-url.ts'

const database = useDatabaseUrl()
const inbox = createInbox({ database: postgres(), consumer: 'unawaited' })
const outbox = createOutbox({ database: postgres() })
let pool: Pool

beforeAll(async () => {
  pool = new Pool({ connectionString: database.url, max: 8 })
  pool.on('error', () => undefined)
  // The database may be dropped before the connections are closed.
  pool.on('connect', (client) => client.on('error', () => undefined))
  await migrate(pool)
})
afterAll(() => pool.end())

async function onClient(work: (client: PoolClient) => Promise<void>): Promise<void> {
  const client = await pool.connect()
  await client.query('BEGIN')
  await work(client).finally(() => client.release())
}

async function count(table: string): Promise<number> {
  return (await pool.query(`select 1 from txbox.${table}`)).rowCount ?? 0
}

for (const end of ['ROLLBACK', 'COMMIT']) {
  test(`O1 a publish that was not awaited stores nothing after ${end}`, async () => {
    await onClient(async (client) => {
      const late = expect(outbox.publish(client, { topic: 'late', payload: 1 })).rejects.toThrow(
        NotInTransactionError,
      )
      await client.query(end)
      await late
    })
    expect(await count('outbox')).toBe(0)
  })

  test(`I2 a process that was not awaited claims nothing after ${end}, and does not run the handler`, async () => {
    let ran = false
    await onClient(async (client) => {
      const late = inbox.process(client, { id: randomUUID() }, () => void (ran = true))
      const refused = expect(late).rejects.toThrow(NotInTransactionError)
      await client.query(end)
      await refused
    })
    expect([await count('inbox'), ran]).toEqual([0, false])
  })

  test(`I7 a handler that does ${end} and begins another transaction is detected`, async () => {
    await onClient(async (client) => {
      const done = inbox.process(client, { id: randomUUID() }, async (tx) => {
        await tx.query(end)
        await tx.query('BEGIN')
      })
      await expect(done).rejects.toThrow(TransactionAbortedError)
      await client.query('ROLLBACK')
    })
    await pool.query('delete from txbox.inbox')
  })
}

for (const pipeline of [false, true]) {
  const kind = pipeline ? 'a pipelined pool' : 'a pool'

  test(`I2 I7 ${kind}: when a transaction ends while a claim is in flight, the handler runs if the claim is stored, and only then`, async () => {
    await pool.query('create table if not exists side_effects (id text)')
    const single = new Pool({ connectionString: database.url, max: 1, pipeline })
    const claimed = async (id: string) =>
      (await pool.query('select 1 from txbox.inbox where key = $1', [id])).rowCount
    for (const end of ['ROLLBACK', 'COMMIT']) {
      for (let ticks = 0; ticks < 60; ticks += 1) {
        const id = randomUUID()
        const client = await single.connect()
        await client.query('BEGIN')
        let ran = 0
        const late = inbox.process(client, { id }, async (tx) => {
          ran += 1
          if (end === 'ROLLBACK') await tx.query("insert into side_effects values ('late')")
        })
        const settled = Promise.allSettled([late])
        for (let tick = 0; tick < ticks; tick += 1) await Promise.resolve()
        await client.query(end)
        client.release()
        await single.query('select 1')
        await settled
        expect([end, ticks, await claimed(id)]).toEqual([end, ticks, ran])
      }
    }
    await single.end()
    expect((await pool.query('select 1 from side_effects')).rowCount).toBe(0)
    await pool.query('delete from txbox.inbox')
  })
}

test('two concurrent drains both see all messages published, and a relay that starts during a drain continues', async () => {
  const published: string[] = []
  await using relay = createRelay({
    database: postgres({ db: pool }),
    publisher: publishEach((message) => void published.push(message.id)),
  })
  const fill = (n: number) =>
    onClient(async (client) => {
      await outbox.publish(
        client,
        Array.from({ length: n }, (_, key) => ({ topic: 't', key: `k${key}`, payload: 1 })),
      )
      await client.query('COMMIT')
    })
  await fill(50)
  const first = relay.drain()
  await fill(50)
  await Promise.all([first, relay.drain()])
  expect([await count('outbox'), published.length]).toEqual([0, 100])

  const draining = relay.drain()
  await relay.start()
  await draining
  const seen = new Promise((resolve) => relay.on('published', resolve))
  await fill(1)
  await seen
})
