import { setTimeout as sleep } from 'node:timers/promises'
import { postgres } from '@txbox/postgres'
import { Pool } from 'pg'
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'
import { receivers, storeIn } from '../support/subjects/receivers.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { until } from '../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
/** So rarely that no test waits for a poll. */
const RARELY = { min: 30_000, max: 30_000 }
const OFTEN = { min: 20, max: 50 }

let pool: Pool

beforeEach(() => {
  pool = new Pool({ connectionString: outbox.url(), max: 12 })
  pool.on('error', () => undefined)
  pool.on('connect', (client) => void client.on('error', () => undefined))
  const own = pool
  onTestFinished(() => own.end())
})

const LISTENERS = `select pid from pg_stat_activity where datname = current_database()
  and (query like 'listen "txbox%' or query like '%::text as listening')`

async function listeners(): Promise<number> {
  return (await outbox.sql(LISTENERS)).length
}

const listening = (count = 1): Promise<void> =>
  until(
    async () => (await listeners()) === count,
    async () => `${count} connections listen; ${await listeners()} do`,
  )

/** The budget of notifications is the process's: a test waits until it is full again. */
const silence = (): Promise<void> => sleep(1200)

function warnings(): () => string[] {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
  onTestFinished(() => warn.mockRestore())
  return () => warn.mock.calls.map(([text]) => String(text)).filter((text) => /\blisten/.test(text))
}

async function arrived(got: readonly unknown[], ...payloads: readonly number[]): Promise<void> {
  await until(
    async () => payloads.every((payload) => got.includes(payload)),
    () => `${JSON.stringify(payloads)} arrive; ${JSON.stringify(got)} did`,
    15_000,
  )
}

describe.each(receivers)('$name', (receiver) => {
  test('U1 with nothing configured, a commit wakes who waits for its messages, long before the next poll', async () => {
    const warned = warnings()
    const got = await receiver.start({ database: postgres({ db: pool }), pollIntervalMs: RARELY })
    await listening()
    await silence()
    for (let n = 1; n <= 3; n += 1) {
      await storeIn(pool, receiver, n)
      await arrived(got, n)
      await sleep(300)
    }
    expect(got).toEqual([1, 2, 3])
    expect(warned()).toEqual([])
  })

  test('U1 a connection to listen on that is killed is said once and replaced, and what nobody notified of is found', async () => {
    const warned = warnings()
    const got = await receiver.start({ database: postgres({ db: pool }), pollIntervalMs: RARELY })
    await listening()
    for (let round = 1; round <= 2; round += 1) {
      await storeIn(pool, receiver, round, false)
      await outbox.sql(`select pg_terminate_backend(pid) from (${LISTENERS}) as listeners`)
      await arrived(got, round)
      await listening()
    }
    expect(warned()).toEqual([expect.any(String)])
    await silence()
    await storeIn(pool, receiver, 3)
    await arrived(got, 3)
  })

  test('U1 a connection to listen on that becomes silent is said once, and messages are found by polling until it is replaced', async () => {
    const network = await UnreliableNetwork.to(target.address())
    onTestFinished(() => network.down())
    const url = new URL(outbox.url())
    url.hostname = network.address.host
    url.port = String(network.address.port)
    const warned = warnings()
    const database = postgres({ db: pool, listen: url.href, listenCheckIntervalMs: 300 })
    const got = await receiver.start({ database, pollIntervalMs: OFTEN })
    await listening()
    network.freeze()
    await storeIn(pool, receiver, 1)
    await arrived(got, 1)
    await until(
      async () => warned().length > 0,
      () => 'the silence is said',
      20_000,
    )
    await storeIn(pool, receiver, 2)
    await arrived(got, 2)
    expect(warned()).toHaveLength(1)
  })

  test('U1 where a connection to listen on is refused, that is said once, and messages are found by polling', async () => {
    const warned = warnings()
    let attempts = 0
    const listen = async (): Promise<object> => {
      attempts += 1
      throw new Error('no more connections')
    }
    const got = await receiver.start({ database: postgres({ db: pool, listen }), pollIntervalMs: OFTEN })
    await storeIn(pool, receiver, 1)
    await arrived(got, 1)
    await until(
      async () => attempts > 2,
      () => 'it tries again',
    )
    expect(warned()).toEqual([expect.stringContaining('no more connections')])
  })
})

test('U1 L9 the local consumers and queues of a database object listen on one connection, and a relay on another', async () => {
  const database = postgres({ db: pool })
  const all = await Promise.all(
    receivers.map(async (receiver) => ({
      receiver,
      got: await receiver.start({ database, pollIntervalMs: RARELY }),
    })),
  )
  await listening(2)
  await silence()
  for (const [n, { receiver, got }] of all.entries()) {
    await storeIn(pool, receiver, n)
    await arrived(got, n)
  }
  expect(await listeners()).toBe(2)
})
