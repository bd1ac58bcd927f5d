import { Pool } from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createOutbox } from '@txbox/outbox'
import { migrate, postgres } from '@txbox/postgres'
import type { NewMessage } from '@txbox/core'
import { Broker, Gate, acceptAll } from '../support/broker.ts'
import { keysOfOneShard } from '../support/keys.ts'
import { RelayUnderTest, messagesOf } from '../support/relay-under-test.ts'
import { PostgresPair } from '../support/servers/postgres-pair.ts'
import { until } from '../support/until.ts'

/** So long that the lease of before is still valid on the new primary. */
const LEASE_MS = 20_000
let pair: PostgresPair
let pool: Pool

beforeEach(async () => {
  pair = await PostgresPair.start()
  pool = new Pool({ connectionString: pair.url, max: 8 })
  pool.on('error', () => undefined)
  await migrate(pool)
})
afterEach(async () => {
  await pool.end()
  await pair.close()
})

/** @returns their ids */
async function publish(messages: readonly NewMessage[]): Promise<string[]> {
  const database = postgres({ db: pool })
  const outbox = createOutbox({ database })
  const published = await database.transact((tx) => outbox.publish(tx, messages))
  return published.map(({ id }) => id)
}

async function left(): Promise<number> {
  const { rows } = await pool.query<{ n: number }>(
    'select (select count(*) from txbox.outbox)::int + (select count(*) from txbox.parked)::int as n',
  )
  return rows[0]!.n
}

test.each(['none', 'per-key'] as const)(
  'O14 a failover to a standby that is behind, in the middle of a call (%s): what is committed from then on is published in order',
  async (ordering) => {
    const broker = new Broker()
    const publisher = broker.publisher({ ordering })
    const subject = await RelayUnderTest.started({ database: postgres({ db: pool }) as never }, publisher, {
      leaseMs: LEASE_MS,
      batchSize: 200,
    })
    // A relay that remembers where it has to begin to read.
    for (let round = 0; round < 10; round++) await publish(messagesOf(undefined, 4000))
    await broker.received(40_000)
    await until(
      async () => (await left()) === 0,
      () => 'the outbox is empty',
    )

    await pair.fallBehind()
    const gate = new Gate()
    publisher.respond = async (call) => {
      await gate.pass()
      return call.acceptAll()
    }
    // All in one shard: code that identifies messages by their number alone would confuse messages with the same
    // number.
    const keys = keysOfOneShard(20)
    await publish(keys.flatMap((key) => messagesOf(key, 20)))
    await gate.reached()
    await pair.failOver()

    // The numbers of those in flight are given out again, to messages of the same keys.
    const now = keys.flatMap((key) => messagesOf(key, 40, 1001))
    const ids = await publish(now)
    const draining = subject.relay.drain()
    gate.open()
    publisher.respond = acceptAll
    await draining
    const published = new Set(broker.ids())
    expect(ids.filter((id) => !published.has(id))).toEqual([])
    expect(await left()).toBe(0)
    for (const key of keys) {
      const mine = ids.filter((_, n) => now[n]!.key === key)
      expect(broker.firstIds(key).filter((id) => mine.includes(id))).toEqual(mine)
    }
    expect(broker.violations).toEqual([])
    expect(subject.heard('dead-lettered')).toEqual([])
  },
)
