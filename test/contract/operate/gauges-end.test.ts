import { randomUUID } from 'node:crypto'
import { createTxbox } from 'txbox'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer, createLocalConsumer } from '@txbox/consumer'
import { portsKey } from '@txbox/core'
import { connectedPortsOf } from '@txbox/core/internal'
import type { ConnectedPorts, LeaseStore } from '@txbox/core/ports'
import { createInbox } from '@txbox/inbox'
import { createQueue, queueSource } from '@txbox/queue'
import { createRelay } from '@txbox/relay'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget, type Root } from '../../support/engines/target.ts'
import { GaugesUnderTest } from '../../support/subjects/gauges-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { messagesOf, publishAll, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { Broker, Gate } from '../../support/worlds/broker.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 20 })
const BACKLOG = 'txbox.outbox.backlog.messages'
const NEVER = new Promise<never>(() => undefined)

/** A database whose answer to a release of leases takes its time: that of a new connection over a network with TLS, or forever. */
function releasing(answer: (released: () => Promise<void>) => Promise<void>): Root['database'] {
  const ports = root.database[portsKey]
  const leases = (): LeaseStore => {
    const inner = ports.leases()
    return Object.assign(Object.create(inner) as LeaseStore, {
      acquire: (...request: Parameters<LeaseStore['acquire']>) => inner.acquire(...request),
      renew: (...request: Parameters<LeaseStore['renew']>) => inner.renew(...request),
      release: (...request: Parameters<LeaseStore['release']>) =>
        request[0].some(({ name }) => name === 'metrics')
          ? answer(() => inner.release(...request))
          : inner.release(...request),
      holders: (prefix: string) => inner.holders(prefix),
      sweep: (...request: Parameters<LeaseStore['sweep']>) => inner.sweep(...request),
      close: () => inner.close(),
    })
  }
  const own = Object.assign(Object.create(ports) as ConnectedPorts, { leases })
  return { engine: root.database.engine, [portsKey]: own } as never
}

async function owners(): Promise<number> {
  const store = connectedPortsOf('test', root.database).leases()
  try {
    return (await store.holders('metrics')).length
  } finally {
    await store.close()
  }
}

interface Part {
  start(): Promise<void>
  stop(options?: { timeoutMs?: number | undefined }): Promise<void>
  on?(event: 'error', listener: (event: { readonly error: unknown }) => void): () => void
}

type Handler = () => Promise<void>
const handled: Handler = async () => undefined

/** Each kind of part, alone in its process. */
const PARTS: Readonly<
  Record<string, (database: Root['database'], telemetry: GaugesUnderTest, work: Handler) => Part>
> = {
  'a relay': (database, telemetry, work) => {
    const publisher = new Broker().publisher({
      respond: async (call) => {
        await work()
        return call.acceptAll()
      },
    })
    return createRelay({ database, publisher, telemetry, pollIntervalMs: { min: 2, max: 20 } })
  },
  'a consumer with an inbox': (database, telemetry, handler) => {
    const source = new MemorySource()
    source.send('m1')
    const inbox = createInbox({ database, consumer: `inbox-${randomUUID()}` })
    return createConsumer({ source, inbox, handler, telemetry })
  },
  'a consumer of a queue': (database, telemetry, handler) => {
    const queue = createQueue({ database, name: `q-${randomUUID()}`, telemetry })
    return createConsumer({ source: queueSource(queue), name: 'plain', handler, telemetry })
  },
  'a local consumer': (database, telemetry, handler) =>
    createLocalConsumer({
      database,
      consumer: `local-${randomUUID()}`,
      handlers: { t: handler },
      telemetry,
    }),
  'a box': (database, telemetry) => {
    const box = createTxbox({ database, telemetry, gc: false, logger: false })
    return { start: () => box.start(), stop: (options) => box.stop(options) }
  },
}

/** Starts a part, whose telemetry then reports the tables. @returns the errors that it emits. */
async function reporting(part: Part, telemetry: GaugesUnderTest): Promise<readonly unknown[]> {
  const errors: unknown[] = []
  part.on?.('error', ({ error }) => void errors.push(error))
  onTestFinished(() => part.stop({ timeoutMs: 100 }))
  await part.start()
  await until(
    async () => (await telemetry.value(BACKLOG)) !== undefined,
    () => 'a backlog',
  )
  return errors
}

for (const [what, create] of Object.entries(PARTS)) {
  test(`a process that ends right after the stop of ${what} leaves no lease of the metrics`, async () => {
    const telemetry = new GaugesUnderTest()
    const database = releasing(async (released) => {
      await new Promise((resolve) => void setTimeout(resolve, 300))
      await released()
    })
    const part = create(database, telemetry, handled)
    const errors = await reporting(part, telemetry)
    await part.stop()
    expect(await owners()).toBe(0)
    expect(errors).toEqual([])
    await outbox.clear()
  })

  test(`a release of the lease that hangs does not hold up the stop of ${what}`, async () => {
    const telemetry = new GaugesUnderTest()
    const part = create(
      releasing(() => NEVER),
      telemetry,
      handled,
    )
    const errors = await reporting(part, telemetry)
    const begunAt = performance.now()
    await part.stop({ timeoutMs: 10_000 })
    expect(performance.now() - begunAt).toBeLessThan(2500)
    expect(errors).toEqual([])
    expect(telemetry.size).toBe(0)
    await outbox.clear()
    await outbox.expireLeases()
  })
}

for (const does of ['ends when it is aborted', 'never ends']) {
  test(`a check of the publisher that ${does} is aborted by the stop, and none begins after the publisher is closed`, async () => {
    const telemetry = new GaugesUnderTest()
    const publisher = new Broker().publisher()
    const story: string[] = []
    const check = async ({ signal }: { readonly signal: AbortSignal }): Promise<void> => {
      story.push('check')
      await new Promise<void>((_, reject) => {
        signal.addEventListener('abort', () => {
          story.push('aborted')
          // A connection takes a moment to close.
          if (does !== 'never ends') setTimeout(() => story.push('ended') && reject(signal.reason), 50)
        })
      })
    }
    const close = async (): Promise<void> => void story.push('closed')
    const { relay } = await RelayUnderTest.started(root, Object.assign(publisher, { check, close }), {
      telemetry,
    })
    const late = telemetry.readersOf('txbox.relay.publisher.up')
    await telemetry.all('txbox.relay.publisher.up')
    expect(story).toEqual(['check'])
    const begunAt = performance.now()
    await relay.stop({ timeoutMs: 8000 })
    expect(performance.now() - begunAt).toBeLessThan(4000)
    const ended = does === 'never ends' ? [] : ['ended']
    expect(story).toEqual(['check', 'aborted', ...ended, 'closed'])
    // A scrape may have begun before the end.
    for (const read of late) await read()
    expect(story.at(-1)).toBe('closed')
  })
}

test('a stop that waits for its work releases the lease at once', async () => {
  const telemetry = new GaugesUnderTest()
  await publishAll(root, messagesOf('a', 1))
  const gate = new Gate()
  onTestFinished(() => gate.open())
  const relay = PARTS['a relay']!(root.database, telemetry, () => gate.pass())
  await reporting(relay, telemetry)
  await gate.reached()
  const stopped = relay.stop({ timeoutMs: 20_000 })
  await until(
    async () => (await owners()) === 0,
    () => 'a free lease',
    5000,
  )
  expect(await telemetry.value(BACKLOG)).toBeUndefined()
  // The shard of the message in flight, at least.
  expect(await telemetry.value('txbox.relay.shards')).toBeGreaterThanOrEqual(1)
  gate.open()
  await stopped
  expect(telemetry.size).toBe(0)
  await outbox.settled()
})
