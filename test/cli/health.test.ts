import type { ChildProcess } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import { Proxy } from '../support/worlds/proxy.ts'
import { until } from '../support/worlds/until.ts'
import { ended, startTxbox, type Ended } from './run-txbox.ts'
import { useShop } from './use-shop.ts'

const shop = useShop()

interface Running {
  readonly child: ChildProcess
  readonly end: Promise<Ended>
  get(path: string): Promise<{ status: number; body: { ok: boolean; reason?: string } }>
}

/** A relay that answers probes on a separate port. */
async function relay(url: string, publisher = 'stdout:'): Promise<Running> {
  const child = startTxbox([
    ...['relay', '--publisher', publisher, '--database', url],
    ...['--health-port', '0', '--health-host', '127.0.0.1', '--json', '--stop-timeout-ms', '1000'],
  ])
  const end = ended(child)
  onTestFinished(() => void child.kill('SIGKILL'))
  let port: number | undefined
  let started = false
  child.stderr?.on('data', (chunk: Buffer) => {
    port ??= Number(/"event":"health","port":(\d+)/.exec(chunk.toString())?.[1] ?? NaN) || undefined
    started ||= chunk.includes('"event":"started"')
  })
  await until(
    async () => port !== undefined && started,
    () => 'the relay has started',
  )
  return {
    child,
    end,
    async get(path) {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`)
      return { status: answer.status, body: (await answer.json()) as { ok: boolean } }
    },
  }
}

async function becomes(running: Running, path: string, status: number): Promise<{ reason?: string }> {
  await until(
    async () => (await running.get(path)).status === status,
    async () => `${path} answers ${status}: ${JSON.stringify(await running.get(path))}`,
    20_000,
  )
  return (await running.get(path)).body
}

test('a working relay is alive and ready, and exits with 0', async () => {
  const running = await relay(shop.url)
  expect(await running.get('/livez')).toEqual({ status: 200, body: { ok: true } })
  expect(await running.get('/readyz?verbose')).toEqual({ status: 200, body: { ok: true } })
  expect((await running.get('/')).status).toBe(404)
  running.child.kill('SIGTERM')
  expect((await running.end).code).toBe(0)
})

test('a relay whose broker is unavailable from the start is alive and not ready, and reports the reason before any message is published', async () => {
  const running = await relay(shop.url, 'amqp://guest:secret@127.0.0.1:1')
  const { reason } = await becomes(running, '/readyz', 503)
  expect(reason).toBe('the publisher does not accept messages')
  expect((await running.get('/livez')).status).toBe(200)
  running.child.kill('SIGTERM')
  const { code, stderr } = await running.end
  expect(code).toBe(0)
  expect(stderr).toMatch(/The publisher is not ready: Cannot connect to RabbitMQ at 127.0.0.1:1/)
  expect(stderr).not.toContain('secret')
})

test('a check of the publisher that is in flight at the end is aborted, is no failure, and ends before the publisher is closed', async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'txbox-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const file = path.join(folder, 'publisher.mjs')
  await writeFile(
    file,
    `
    const say = (text) => process.stderr.write(text + '\\n')
    export default {
      publish: async () => [],
      check: ({ signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => setTimeout(() => (say('check ended'), reject(signal.reason)), 100))
        }),
      close: async () => say('closed'),
    }`,
  )
  const running = await relay(shop.url, `module:${file}`)
  await becomes(running, '/readyz', 503)
  running.child.kill('SIGTERM')
  const { code, stderr } = await running.end
  expect(code).toBe(0)
  expect(stderr).not.toContain('not-ready')
  expect(stderr).toMatch(/check ended\n(.*\n)*closed/)
})

test('without its broker a relay is alive, and not ready', async () => {
  const running = await relay(shop.url, 'amqp://guest:secret@127.0.0.1:1')
  const client = new Client(shop.url)
  await client.connect()
  await client.query('begin')
  await createOutbox({ database: postgres() }).publish(client, { topic: 't', payload: 1 })
  await client.query('commit')
  await client.end()
  const { reason } = await becomes(running, '/readyz', 503)
  expect(reason).toBe('the publisher does not accept messages')
  expect((await running.get('/livez')).status).toBe(200)
  running.child.kill('SIGTERM')
  expect((await running.end).code).toBe(0)
  await shop.sql('delete from txbox.outbox')
})

test('without its database a relay is alive, and not ready until it is back', async () => {
  const url = new URL(shop.url)
  const server = { host: url.hostname, port: Number(url.port || 5432) }
  const proxy = await Proxy.to(server)
  onTestFinished(() => proxy.close())
  url.host = `127.0.0.1:${proxy.address.port}`
  const running = await relay(url.href)
  await becomes(running, '/readyz', 200)
  const gone = proxy.refuse()
  const { reason } = await becomes(running, '/readyz', 503)
  expect(reason).toMatch(/the database/)
  expect(reason).not.toContain(url.host)
  expect((await running.get('/livez')).status).toBe(200)
  gone.over()
  await becomes(running, '/readyz', 200)
  running.child.kill('SIGTERM')
  expect((await running.end).code).toBe(0)
})

test('concurrent probes send only one query at a time to the database', async () => {
  const running = await relay(shop.url)
  const client = new Client(shop.url)
  await client.connect()
  onTestFinished(() => client.end())
  // A query for the revision of the tables must wait.
  await client.query('begin')
  await client.query('lock table txbox.migrations in access exclusive mode')
  const asked = Array.from({ length: 20 }, () => running.get('/readyz'))
  const waiting = async (): Promise<number> => {
    const { rows } = await shop.sql(
      "select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    )
    return (rows[0] as { n: number }).n
  }
  await until(
    async () => (await waiting()) > 0,
    () => 'a probe asks the database',
  )
  const answers = await Promise.all(asked)
  expect(answers.map(({ status }) => status)).toEqual(asked.map(() => 503))
  expect(await waiting()).toBeLessThanOrEqual(1)
  await client.query('rollback')
  await becomes(running, '/readyz', 200)
  running.child.kill('SIGTERM')
  expect((await running.end).code).toBe(0)
})

test('a port that is already in use causes one line of output and exit code 1', async () => {
  const taken = createServer()
  await new Promise<void>((resolve) => void taken.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void taken.close())
  const { port } = taken.address() as { port: number }
  const { code, stderr } = await shop.run(
    ...['relay', '--publisher', 'stdout:', '--health-port', String(port), '--health-host', '127.0.0.1'],
  )
  expect(code).toBe(1)
  expect(stderr).toMatch(new RegExp(`^txbox: --health-port ${port}: .*EADDRINUSE.*Choose a free port\\.\n$`))
})
