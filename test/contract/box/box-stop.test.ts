import { atLeastOnce } from 'txbox'
import { expect, test, vi } from 'vitest'
import { portsKey } from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import { BoxUnderTest } from '../../support/subjects/box-under-test.ts'
import { GaugesUnderTest } from '../../support/subjects/gauges-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 24 })

/** Never resolves. */
const hang = (): Promise<never> => new Promise(() => undefined)
const hangingStore = { renew: hang, release: hang, close: async () => undefined }

async function durationOf(work: () => Promise<unknown>): Promise<number> {
  const begunAt = performance.now()
  await work()
  return performance.now() - begunAt
}

test('T5 stop ends within its time whatever hangs: handlers, a publisher, its close, a source', async () => {
  const subject = new BoxUnderTest(target, root)
  const running = { billing: 0, publisher: 0, source: 0 }
  const source = new MemorySource()
  const publisher = {
    publish: () => {
      running.publisher += 1
      return hang()
    },
    close: hang,
  }
  const hangs = (): Promise<never> => {
    running.billing += 1
    return hang()
  }
  const fromSource = atLeastOnce(() => {
    running.source += 1
    return hang()
  })
  const box = await subject.start(
    { billing: { made: hangs }, mailer: { made: atLeastOnce(hang) } },
    {
      publisher,
      stopTimeoutMs: 2000,
      sources: { [subject.name('source')]: { source, handlers: { sent: fromSource } } },
    },
  )
  source.send('m1', { type: 'sent' })
  await box.transact(() => box.publish(subject.message('made', { topic: 'orders' })))
  await until(
    async () => Object.values(running).every((count) => count > 0),
    () => JSON.stringify(running),
  )
  expect(await durationOf(() => Promise.all([box.stop(), box.stop()]))).toBeLessThan(2300)
  await box.stopped
  expect(await durationOf(() => box.stop())).toBeLessThan(100)
  expect(await subject.effectsInOrder()).toEqual([])
  expect(await subject.left()).toBe(1)
})

test('T5 stop ends within its time while the database is away', async () => {
  const { proxy, through } = await rootThroughProxy(target, mainKind(target))
  const subject = new BoxUnderTest(target, root)
  const publisher = { publish: async () => [] }
  const box = await subject.start({ billing: { made: () => undefined } }, { publisher, gc: {} }, through)
  proxy.refuse()
  expect(await durationOf(() => box.stop({ timeoutMs: 1000 }))).toBeLessThan(1500)
})

test('T5 stop waits only briefly for the lease of the metrics, and closes the publisher', async () => {
  const subject = new BoxUnderTest(target, root)
  const ports = root.database[portsKey]
  const asked = vi.fn(hang)
  const leases = (): object => ({ ...hangingStore, acquire: asked })
  const hanging = Object.assign(Object.create(ports) as ConnectedPorts, { leases })
  const database = { engine: root.database.engine, [portsKey]: hanging } as never
  const close = vi.fn(async () => undefined)
  const telemetry = new GaugesUnderTest()
  const publisher = { publish: async () => [], close }
  const box = await subject.start({}, { publisher, relay: false, telemetry }, { database })
  await telemetry.value('txbox.outbox.backlog.messages')
  await until(
    async () => asked.mock.calls.length > 0,
    () => 'an attempt to get the lease',
  )
  expect(await durationOf(() => box.stop({ timeoutMs: 10_000 }))).toBeLessThan(2000)
  expect(close).toHaveBeenCalledTimes(1)
})

test('T5 a later stop with a shorter time ends the first one', async () => {
  const subject = new BoxUnderTest(target, root)
  const started = Promise.withResolvers<void>()
  const box = await subject.start({
    billing: {
      made: () => {
        started.resolve()
        return hang()
      },
    },
  })
  await box.transact(() => box.publish(subject.message('made')))
  await started.promise
  const first = box.stop({ timeoutMs: 60_000 })
  expect(await durationOf(() => Promise.all([first, box.stop({ timeoutMs: 500 })]))).toBeLessThan(1000)
})

test('T5 stop lets a running handler end, gives back all leases, and closes a publisher without a relay', async () => {
  const subject = new BoxUnderTest(target, root)
  const close = vi.fn(async () => undefined)
  const gate = Promise.withResolvers<void>()
  const started = Promise.withResolvers<void>()
  const box = await subject.start(
    {
      billing: {
        made: async () => {
          started.resolve()
          await gate.promise
        },
      },
    },
    { publisher: { publish: async () => [], close }, relay: false },
  )
  expect([box.relay, box.gc]).toEqual([undefined, undefined])
  await box.transact(() => box.publish(subject.message('made')))
  await started.promise
  const stopping = box[Symbol.asyncDispose]()
  gate.resolve()
  await stopping
  expect(await subject.effectsInOrder()).toHaveLength(1)
  expect(await outbox.heldLeases()).toBe(0)
  expect(close).toHaveBeenCalledOnce()
})

test('T5 stop does not wait for a publisher without a relay whose close hangs', async () => {
  const subject = new BoxUnderTest(target, root)
  const box = await subject.start({}, { publisher: { publish: async () => [], close: hang }, relay: false })
  expect(await durationOf(() => box.stop({ timeoutMs: 300 }))).toBeLessThan(1000)
})

test('T5 with signals, the first SIGTERM stops the box, and stop removes the listeners', async () => {
  const subject = new BoxUnderTest(target, root)
  const before = process.listenerCount('SIGTERM')
  const box = await subject.start({}, { signals: true })
  expect(process.listenerCount('SIGTERM')).toBe(before + 1)
  process.emit('SIGTERM')
  await box.stopped
  expect([process.listenerCount('SIGTERM'), process.listenerCount('SIGINT')]).toEqual([
    before,
    process.listenerCount('SIGINT'),
  ])
  const other = await subject.start({}, { signals: true })
  await other.stop()
  expect(process.listenerCount('SIGTERM')).toBe(before)
})

test('T5 aborting the signal of the box stops it', async () => {
  const subject = new BoxUnderTest(target, root)
  const controller = new AbortController()
  const box = await subject.start({ billing: { made: () => undefined } }, { signal: controller.signal })
  controller.abort()
  await box.stopped
  expect(await box.health()).toMatchObject({
    ok: false,
    parts: { [subject.name('billing')]: { reason: 'The box has been stopped.' } },
  })
})
