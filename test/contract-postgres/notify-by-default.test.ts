import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import { Client, Pool } from 'pg'
import { beforeAll, afterAll, expect, onTestFinished, test } from 'vitest'
import { setTimeout as sleep } from 'node:timers/promises'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'
import { receivers, storeIn, type Notify } from '../support/subjects/receivers.ts'
import { until } from '../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
let pool: Pool

beforeAll(() => {
  pool = new Pool({ connectionString: outbox.url(), max: 6 })
})
afterAll(() => pool.end())

/** The notifications of all channels of txbox. */
async function notifications(): Promise<string[]> {
  const client = new Client({ connectionString: outbox.url() })
  onTestFinished(() => client.end())
  await client.connect()
  const heard: string[] = []
  client.on('notification', ({ channel }) => void heard.push(channel.replace(/_[^_]*$/, '_')))
  const { rows } = await client.query<{ hash: string }>(`select 'x' as hash`)
  expect(rows).toHaveLength(1)
  for (const channel of CHANNELS) await client.query(`listen "${channel}"`)
  return heard
}

/** The channels of the default schema. */
const CHANNELS = ['outbox', 'local', 'queue'].map((kind) => `txbox_${kind}_7c7d129d`)

const heardAll = async (heard: readonly string[], count: number): Promise<void> => {
  await until(
    async () => heard.length >= count,
    () => `${count} notifications; there are ${heard.length}`,
  )
  await sleep(100)
}

test.each(receivers)(
  'U2 the first transaction after a silence notifies, and of a stream only some do: $name',
  async (receiver) => {
    const heard = await notifications()
    await sleep(1200)
    const beganAt = performance.now()
    await storeIn(pool, receiver, 0)
    await heardAll(heard, 1)
    for (let n = 1; n <= 100; n += 1) await storeIn(pool, receiver, n)
    await sleep(100)
    const seconds = (performance.now() - beganAt) / 1000
    expect(heard.length).toBeLessThanOrEqual(5 + 15 * seconds)
    expect(heard.length).toBeLessThan(101)
    expect(new Set(heard)).toEqual(new Set([receiver.channel]))
  },
)

test.each(receivers)(
  'U2 notify: true and notify: false decide for every transaction: $name',
  async (receiver) => {
    const heard = await notifications()
    const stored = async (notify: Notify): Promise<void> => {
      for (let n = 0; n < 30; n += 1) await storeIn(pool, receiver, n, notify)
    }
    await stored(false)
    await sleep(100)
    expect(heard).toEqual([])
    await stored(true)
    await heardAll(heard, 30)
    expect(heard).toHaveLength(30)
  },
)

test('U2 a transaction that rolls back notifies nobody, and the next one does', async () => {
  const heard = await notifications()
  await sleep(1200)
  const client = await pool.connect()
  await client.query('begin')
  await createOutbox({ database: postgres() }).publish(client, { topic: 't', payload: 1 })
  await client.query('rollback')
  client.release()
  await storeIn(pool, receivers[0]!, 2)
  await heardAll(heard, 1)
  expect(heard).toHaveLength(1)
})

test('U2 a message for relays and local consumers notifies both by one statement, and a scheduled message nobody', async () => {
  const heard = await notifications()
  await sleep(1200)
  const publisher = createOutbox({ database: postgres(), subscriptions: { made: ['billing'] } })
  const client = await pool.connect()
  onTestFinished(() => client.release())
  await client.query('begin')
  const later = new Date(Date.now() + 60_000)
  await publisher.publish(client, { topic: 't', type: 'made', payload: 1, deliverAt: later })
  await client.query('commit')
  await sleep(100)
  expect(heard).toEqual([])
  await client.query('begin')
  await publisher.publish(client, { topic: 't', type: 'made', payload: 1 })
  await client.query('commit')
  await heardAll(heard, 2)
  expect(heard.toSorted()).toEqual(['txbox_local_', 'txbox_outbox_'])
})
