import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createGarbageCollector } from '@txbox/gc'
import { migrate, postgres } from '@txbox/postgres'
import { useDatabaseUrl } from '../cli/use-database-url.ts'
import { until } from '../support/worlds/until.ts'

const database = useDatabaseUrl()
let pool: Pool

beforeAll(async () => {
  pool = new Pool({ connectionString: database.url, max: 8 })
  pool.on('error', () => undefined)
  pool.on('connect', (client) => client.on('error', () => undefined))
  await migrate(pool)
})
afterAll(() => pool.end())

/** The processes that wait for the lock, those that have waited the longest first. */
async function waiting(): Promise<number[]> {
  const { rows } = await pool.query<{ pid: number }>(
    `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' order by query_start`,
  )
  return rows.map(({ pid }) => pid)
}

test('a start that fails after stop and another start leaves the loop of the other start alone', async () => {
  const collector = createGarbageCollector({
    database: postgres({ db: pool }),
    intervalMs: 60_000,
    logger: false,
  })
  const locker = await pool.connect()
  const lock = 'begin; lock table txbox.migrations in access exclusive mode'
  await locker.query(lock)
  const first = expect(collector.start()).rejects.toThrow()
  await until(
    async () => (await waiting()).length === 1,
    () => 'the first start waits for the lock',
  )
  await collector.stop({ timeoutMs: 10 })
  const second = collector.start()
  await until(
    async () => (await waiting()).length === 2,
    () => 'the second start waits for the lock',
  )
  await pool.query('select pg_terminate_backend($1)', [(await waiting())[0]])
  await first
  await locker.query('commit')
  await second
  // A third start has nothing to do. If it began another loop, it would wait for the lock.
  await locker.query(lock)
  expect(await Promise.race([collector.start(), sleep(500, 'waits')])).toBeUndefined()
  await locker.query('rollback')
  locker.release()
  await collector.stop()
})
