import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer, createLocalConsumer } from '@txbox/consumer'
import { telemetryKey, type Telemetry } from '@txbox/core'
import { createGarbageCollector } from '@txbox/gc'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { queueSource } from '@txbox/queue'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { IdempotencyUnderTest, isReplayed } from '../../support/subjects/idempotency-under-test.ts'
import { QueueUnderTest } from '../../support/subjects/queue-under-test.ts'
import { messagesOf, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { Broker } from '../../support/worlds/broker.ts'
import { until } from '../../support/worlds/until.ts'
import { warningsOf } from '../../support/worlds/warnings.ts'
import { WRONG_TELEMETRIES } from '../../support/worlds/wrong-telemetries.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 24 })
const COUNT = 6
const NUMBERS = Array.from({ length: COUNT }, (_, n) => n)

/** Uses every part of txbox, each of which has work that fails once where it can. @param telemetry of the process, if absent. */
async function useEveryPart(telemetry: Telemetry | undefined): Promise<void> {
  const name = randomUUID()
  const { database } = root
  const relayed = messagesOf(name, COUNT, 0)
  const local = `local-${name}`
  const queue = new QueueUnderTest(target, root, { telemetry })
  const publishing = createOutbox({ database, telemetry, subscriptions: { [name]: [local] } })
  const transaction = await root.begin()
  await publishing.publish(transaction.tx, relayed)
  for (const payload of NUMBERS) await publishing.publish(transaction.tx, { type: name, key: 'k', payload })
  for (const payload of NUMBERS) await queue.queue.send(transaction.tx, { payload, key: 'k' })
  await transaction.commit()

  const broker = new Broker()
  const { relay } = await RelayUnderTest.started(root, broker.publisher(), { telemetry, logger: false })
  const handled: { readonly local: unknown[]; readonly queue: unknown[] } = { local: [], queue: [] }
  /** Fails once. */
  const handle = (all: unknown[], payload: unknown): void => {
    if (payload === 3 && !all.includes('failed')) {
      all.push('failed')
      throw new Error('of the handler')
    }
    all.push(payload)
  }
  const consumers = [
    createLocalConsumer({
      database,
      consumer: local,
      handlers: {
        [name]: async (tx: never, { payload }: { readonly payload: unknown }) => {
          handle(handled.local, payload)
          await target.effect(tx, `${name} ${payload as number}`)
        },
      } as never,
      retry: { attempts: 5, delayMs: () => 1 },
      telemetry,
      logger: false,
    }),
    createConsumer({
      source: queueSource(queue.queue, { pollIntervalMs: { min: 5, max: 20 } }),
      name: `queue-${name}`,
      handler: ({ payload }) => handle(handled.queue, payload),
      retry: { attempts: 5, delayMs: () => 1 },
      telemetry,
      logger: false,
    }),
  ]
  let settled = 0
  for (const consumer of consumers) {
    consumer.on('handled', () => void settled++)
    onTestFinished(() => consumer.stop({ timeoutMs: 500 }))
    await consumer.start()
  }
  await broker.received(COUNT)
  await until(
    async () => settled === 2 * COUNT,
    () => `all settled: ${settled}, ${JSON.stringify(handled)}`,
  )
  const numbers = [...NUMBERS.slice(0, 3), 'failed', ...NUMBERS.slice(3)]
  expect(handled).toEqual({ local: numbers, queue: numbers })
  expect(broker.log.map(({ message }) => message.json())).toEqual(relayed.map(({ payload }) => payload))
  for (const n of NUMBERS) expect(await target.effects(`${name} ${n}`)).toBe(1)

  const inbox = createInbox({ database, consumer: `inbox-${name}`, telemetry })
  const effect = (): Promise<unknown> =>
    inbox.run({ id: 'm' }, async (tx) => {
      await target.effect(tx, `inbox ${name}`)
      return 'result'
    })
  const failure = new Error('of the work')
  await expect(inbox.run({ id: 'f' }, () => Promise.reject(failure))).rejects.toBe(failure)
  expect(await effect()).toMatchObject({ status: 'processed', result: 'result' })
  expect(await effect()).toMatchObject({ status: 'duplicate' })
  expect(await target.effects(`inbox ${name}`)).toBe(1)

  const http = new IdempotencyUnderTest(target, root, { telemetry })
  const responses = [await http.handle(), await http.handle()]
  expect(responses.map(({ status }) => status)).toEqual([201, 201])
  expect(responses.map(isReplayed)).toEqual([false, true])
  expect([await http.effects(), http.calls, http.errors]).toEqual([1, 1, []])

  const collector = createGarbageCollector({ database, telemetry, logger: false })
  await collector.start()
  expect(await collector.runOnce()).toMatchObject({ failures: 0, complete: true })
  await Promise.all([relay, collector, ...consumers].map((part) => part.stop()))
  await outbox.settled()
}

for (const [does, create] of Object.entries(WRONG_TELEMETRIES)) {
  test(`a telemetry that ${does} disturbs no part of txbox, and is reported once`, async () => {
    const warnings = warningsOf('TXBOX_TELEMETRY')
    const { hooks, isReported = true } = create()
    await useEveryPart(hooks as Telemetry)
    expect(warnings).toHaveLength(isReported ? 1 : 0)
  })
}

test('a telemetry that is registered, and whose every property throws later on, disturbs no part of txbox, and is reported once', async () => {
  const warnings = warningsOf('TXBOX_TELEMETRY')
  const { hooks } = WRONG_TELEMETRIES['begins the work, and never ends']!()
  let reads = 0
  const telemetry = new Proxy(hooks, {
    get(...[of, property]) {
      // The first reads find out whether this is a telemetry.
      if (++reads > 5) throw new Error('a property')
      return Reflect.get(of, property) as unknown
    },
  })
  Object.assign(globalThis, { [telemetryKey]: telemetry })
  onTestFinished(() => void Object.assign(globalThis, { [telemetryKey]: undefined }))
  await useEveryPart(undefined)
  expect(warnings).toHaveLength(1)
})

test('a place of the registered telemetry that cannot be read disturbs no part of txbox, and is reported once', async () => {
  const warnings = warningsOf('TXBOX_TELEMETRY')
  const get = (): never => {
    throw new Error('a property')
  }
  Object.defineProperty(globalThis, telemetryKey, { get, configurable: true })
  onTestFinished(() => void Reflect.deleteProperty(globalThis, telemetryKey))
  await useEveryPart(undefined)
  expect(warnings).toHaveLength(1)
})
