import { spawn } from 'node:child_process'
import { mkdtemp, rm, symlink } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { text } from 'node:stream/consumers'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import { parseMetrics, valueOf } from '../support/subjects/metrics-text.ts'
import { StubTelemetry, someContext } from '../support/subjects/stub-telemetry.ts'
import { environmentWith } from '../support/subjects/txbox-in-process.ts'
import { until } from '../support/worlds/until.ts'
import { ended } from './run-txbox.ts'
import { useShop } from './use-shop.ts'

const shop = useShop()
const MAIN = fileURLToPath(new URL('../../packages/cli/dist/main.js', import.meta.url))
const SDK = fileURLToPath(new URL('telemetry-sdk.mjs', import.meta.url))
const TOPIC = 'orders'

interface Span {
  readonly name: string
  readonly id: string
  readonly links: readonly string[]
}

interface Point {
  readonly attributes: Readonly<Record<string, unknown>>
  readonly value: number
}

/** A server to which the SDK in another process exports its spans and metrics. */
class Receiver {
  readonly spans: Span[] = []
  metrics: readonly { readonly name: string; readonly points: readonly Point[] }[] = []
  #exports = 0
  #url = ''

  static async started(): Promise<Receiver> {
    const receiver = new Receiver()
    const server = createServer((request, response) => {
      void text(request).then((body) => {
        if (request.url === '/traces') receiver.spans.push(...(JSON.parse(body) as Span[]))
        else receiver.#received(JSON.parse(body) as Receiver['metrics'])
        response.end()
      })
    })
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    receiver.#url = `http://127.0.0.1:${(server.address() as { port: number }).port}`
    return receiver
  }

  get url(): string {
    return this.#url
  }

  /** The points of the last export. */
  points(name: string, attributes: object = {}): readonly Point[] {
    const points = this.metrics.filter((metric) => metric.name === name).flatMap((metric) => metric.points)
    return points.filter((point) => JSON.stringify(point.attributes) === JSON.stringify(attributes))
  }

  async exports(more: number): Promise<void> {
    const before = this.#exports
    await until(
      async () => this.#exports >= before + more,
      () => `${more} exports`,
    )
  }

  #received(metrics: Receiver['metrics']): void {
    this.#exports++
    this.metrics = metrics
  }
}

/** `node --import ./sdk.mjs --import @txbox/opentelemetry/register node_modules/.bin/txbox …` */
async function start(args: readonly string[], receiver: Receiver) {
  const folder = await mkdtemp(path.join(tmpdir(), 'txbox-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const bin = path.join(folder, 'txbox')
  await symlink(MAIN, bin)
  const imports = ['--import', SDK, '--import', '@txbox/opentelemetry/register']
  const child = spawn(process.execPath, [...imports, bin, ...args, '--database', shop.url, '--json'], {
    env: environmentWith({ RECEIVER_URL: receiver.url }),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const end = ended(child)
  onTestFinished(() => void child.kill('SIGKILL'))
  let log = ''
  child.stderr.on('data', (chunk: Buffer) => (log += chunk.toString()))
  await until(
    async () => log.includes('"event":"started"'),
    () => `the command has started: ${log}`,
  )
  return {
    port: () => /"event":"health","port":(\d+)/.exec(log)?.[1],
    stop: () => {
      child.kill('SIGTERM')
      return end
    },
  }
}

async function publish(count: number): Promise<string> {
  const client = new Client(shop.url)
  await client.connect()
  const context = someContext()
  try {
    await client.query('begin')
    const outbox = createOutbox({ database: postgres(), telemetry: new StubTelemetry(context) })
    for (let n = 0; n < count; n++) await outbox.publish(client, { topic: TOPIC, payload: n })
    await client.query('commit')
  } finally {
    await client.end()
  }
  return context.traceparent.split('-')[1]!
}

async function leaseHolders(): Promise<number> {
  const { rows } = await shop.sql(
    `select count(*)::int as n from txbox.leases where name = 'metrics' and expires_at > now()`,
  )
  return (rows[0] as { n: number }).n
}

const PORT = ['--health-port', '0', '--health-host', '127.0.0.1', '--metrics']

test.for([
  ['without --metrics', []],
  ['with --metrics', PORT],
] as const)(
  'a relay %s whose process has an SDK exports its traces, and each count and gauge once, and ends in time',
  async ([, more]) => {
    await shop.sql('truncate txbox.outbox, txbox.leases')
    const receiver = await Receiver.started()
    const relay = await start(['relay', '--publisher', 'stdout:', ...more], receiver)
    const traceId = await publish(3)
    const accepted = { outcome: 'accepted' }
    await until(
      async () => receiver.points('txbox.relay.messages', accepted).some(({ value }) => value === 3),
      () => `3 accepted: ${JSON.stringify(receiver.metrics)}`,
    )
    await until(
      async () => receiver.points('txbox.outbox.backlog.messages').length > 0,
      () => `a backlog: ${JSON.stringify(receiver.metrics)}`,
    )
    await receiver.exports(2)
    expect(receiver.points('txbox.relay.messages', accepted)).toMatchObject([{ value: 3 }])
    expect(receiver.points('txbox.relay.latency')).toMatchObject([{ value: 3 }])
    expect(receiver.points('txbox.outbox.backlog.messages')).toHaveLength(1)
    expect(receiver.points('txbox.relay.shards')).toMatchObject([{ value: 16 }])
    expect(receiver.points('txbox.relay.publisher.up')).toMatchObject([{ value: 1 }])
    const sent = receiver.spans.filter(({ name }) => name === `send ${TOPIC}`)
    expect(sent.length).toBeGreaterThan(0)
    expect(new Set(sent.map(({ id }) => id)).size).toBe(sent.length)
    expect(sent.flatMap(({ links }) => links)).toEqual([traceId, traceId, traceId])
    expect(await leaseHolders()).toBe(1)
    if (more.length > 0) {
      const scraped = parseMetrics(await (await fetch(`http://127.0.0.1:${relay.port()}/metrics`)).text())
      expect(valueOf(scraped, 'txbox_relay_messages_total', accepted)).toBe(3)
      expect(valueOf(scraped, 'txbox_relay_shards')).toBe(16)
    }
    await publish(2)
    await until(
      async () => receiver.points('txbox.relay.messages', accepted).some(({ value }) => value === 5),
      () => `5 accepted: ${JSON.stringify(receiver.metrics)}`,
    )
    const stoppedAt = performance.now()
    const { code, stderr } = await relay.stop()
    expect(performance.now() - stoppedAt).toBeLessThan(5000)
    expect([code, stderr.includes('Warning')]).toEqual([0, false])
    expect(await leaseHolders()).toBe(0)
    // The last export, when the process ends.
    expect(receiver.points('txbox.relay.messages', accepted)).toMatchObject([{ value: 5 }])
  },
)

test('a collector whose process has an SDK exports its runs, takes no lease, and ends in time', async () => {
  await shop.sql('truncate txbox.outbox, txbox.leases')
  const receiver = await Receiver.started()
  const gc = await start(['gc', '--interval-ms', '3600000'], receiver)
  await until(
    async () => receiver.points('txbox.gc.duration').length > 0,
    () => `a run: ${JSON.stringify(receiver.metrics)}`,
  )
  expect(receiver.points('txbox.gc.duration')).toMatchObject([{ value: 1 }])
  expect(await leaseHolders()).toBe(0)
  const stoppedAt = performance.now()
  expect((await gc.stop()).code).toBe(0)
  expect(performance.now() - stoppedAt).toBeLessThan(5000)
})
