import { expect, onTestFinished, test, vi } from 'vitest'
import { postgres } from '@txbox/postgres'
import { createQueue, queueSource, type Queue } from '@txbox/queue'
import { Pool, type PoolClient } from 'pg'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
/** So rarely that no test waits for a poll. */
const RARELY = { pollIntervalMs: { min: 30_000, max: 30_000 } }

function queueOf(name: string, options: { notify?: boolean } = {}): { queue: Queue<PoolClient>; pool: Pool } {
  const pool = new Pool({ connectionString: outbox.url(), max: 4 })
  pool.on('error', () => undefined)
  pool.on('connect', (client) => void client.on('error', () => undefined))
  onTestFinished(() => pool.end())
  return { queue: createQueue({ database: postgres({ db: pool }), name, notify: true, ...options }), pool }
}

async function send(queue: Queue<PoolClient>, pool: Pool): Promise<string> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    const { id } = await queue.send(client, { payload: 1 })
    await client.query('commit')
    return id
  } finally {
    client.release()
  }
}

async function listeners(): Promise<number> {
  const [row] = await outbox.sql(
    `select count(*)::int as n from pg_stat_activity
     where datname = current_database() and (query like 'listen "txbox%' or query like '%::text as listening')`,
  )
  return Number(row?.['n'])
}

const listening = (): Promise<void> =>
  until(
    async () => (await listeners()) > 0,
    () => 'a connection listens',
  )

test('Q4 a sender with notify wakes the consumer of a queue that polls rarely', async () => {
  const { queue, pool } = queueOf('woken')
  const failures: unknown[] = []
  const source = await queueSource(queue, RARELY).open({
    prefetch: 10,
    failed: (error) => void failures.push(error),
  })
  const waiting = source.receive(1, { signal: AbortSignal.timeout(20_000) })
  await listening()
  const id = await send(queue, pool)
  const began = performance.now()
  const [delivery] = await waiting
  expect(delivery?.message.id).toBe(id)
  expect(performance.now() - began).toBeLessThan(5000)
  await delivery!.accept()
  expect(failures).toEqual([])
  await source.close()
})

test('Q4 receive listens while it waits, and stops listening soon afterwards', async () => {
  const { queue, pool } = queueOf('listens')
  const waiting = queue.receive({ waitMs: 20_000 })
  await listening()
  const id = await send(queue, pool)
  expect((await waiting).map(({ message }) => message.id)).toEqual([id])
  await until(
    async () => (await listeners()) === 0,
    () => 'no connection listens',
  )
})

test('Q4 without notify no connection listens', async () => {
  const { queue } = queueOf('silent', { notify: false })
  expect(await queue.receive({ waitMs: 300 })).toEqual([])
  expect(await listeners()).toBe(0)
})

test('Q4 a connection that listens and fails is reported and replaced, and the source keeps its deliveries', async () => {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
  onTestFinished(() => warn.mockRestore())
  const { queue, pool } = queueOf('cut')
  const failures: unknown[] = []
  const source = await queueSource(queue, RARELY).open({
    prefetch: 10,
    failed: (error) => void failures.push(error),
  })
  const held = await send(queue, pool)
  const [delivery] = await source.receive(1, { signal: AbortSignal.timeout(20_000) })
  expect(delivery?.message.id).toBe(held)
  const waiting = source.receive(1, { signal: AbortSignal.timeout(20_000) }).catch((error: unknown) => error)
  await listening()
  await outbox.sql(
    `select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and (query like 'listen "txbox%' or query like '%::text as listening')`,
  )
  await until(
    async () => warn.mock.calls.length > 0,
    () => 'the failure is reported',
  )
  await listening()
  const id = await send(queue, pool)
  expect(await waiting).toMatchObject([{ message: { id } }])
  // A failure of the source would make a consumer give back what it handles.
  expect(failures).toEqual([])
  expect(delivery!.lost.aborted).toBe(false)
  await delivery!.accept()
  await source.close()
})

test('Q4 a receive whose connection to listen fails warns once, and goes on polling', async () => {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
  onTestFinished(() => warn.mockRestore())
  const pool = new Pool({ connectionString: outbox.url(), max: 4 })
  onTestFinished(() => pool.end())
  const listen = (): Promise<object> => Promise.reject(new Error('no more connections'))
  const queue = createQueue({ database: postgres({ db: pool, listen }), name: 'deaf', notify: true })
  const waiting = queue.receive({ waitMs: 20_000 })
  await until(
    async () => warn.mock.calls.length > 0,
    () => 'a warning',
  )
  const id = await send(queue, pool)
  expect((await waiting).map(({ message }) => message.id)).toEqual([id])
  expect(await queue.receive({ waitMs: 500 })).toEqual([])
  expect(warn.mock.calls.map(([text, options]) => [String(text), options])).toEqual([
    [
      expect.stringContaining('no more connections'),
      { type: 'TxboxWarning', code: 'TXBOX_QUEUE_NOT_LISTENING' },
    ],
  ])
})
