import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import type { SpanDescription, SpanHandle, Telemetry } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { RelayUnderTest } from '../support/subjects/relay-under-test.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import { warningsOf } from '../support/worlds/warnings.ts'
import { useBroker } from '../rabbitmq/broker-under-test.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const broker = useBroker()
const root = useRoot(target, mainKind(target), { max: 20 })

type Work = (tell?: SpanHandle) => Promise<unknown>

const fail = (): never => {
  throw new Error('a telemetry')
}
const NEVER = new Promise<never>(() => undefined)
const HANDLE: SpanHandle = { set: () => undefined, failed: () => undefined }
const QUIET = {
  capture: () => undefined,
  count: () => undefined,
  record: () => undefined,
  observe: () => fail,
}

/** Telemetries of which each hook is wrong in its own way. */
const WRONG: Readonly<Record<string, object>> = {
  'throws on every hook': { capture: fail, span: fail, count: fail, record: fail, observe: fail },
  'hangs on every hook': Object.fromEntries(
    ['capture', 'span', 'count', 'record', 'observe'].map((hook) => [hook, () => NEVER]),
  ),
  'rejects on every hook': Object.fromEntries(
    ['capture', 'span', 'count', 'record', 'observe'].map((hook) => [hook, async () => fail()]),
  ),
  'answers nonsense on every hook': {
    capture: () => ({ traceparent: '00-evil\r\nheader: injected', tracestate: 7 }),
    span: () => 'nonsense',
    count: () => 'nonsense',
    record: () => 'nonsense',
    observe: () => 'nonsense',
  },
  'begins the work, and never ends': {
    ...QUIET,
    span: (_: SpanDescription, work: Work) => {
      void work(HANDLE).catch(() => undefined)
      return NEVER
    },
  },
  'throws after it has begun the work': {
    ...QUIET,
    span: (_: SpanDescription, work: Work) => {
      void work(HANDLE).catch(() => undefined)
      fail()
    },
  },
  'begins the work twice, with a handle that throws': {
    ...QUIET,
    span: async (_: SpanDescription, work: Work) => {
      void work({ set: fail, failed: fail }).catch(() => undefined)
      return work({ set: fail, failed: fail })
    },
  },
  'begins the work too late': {
    ...QUIET,
    span: async (_: SpanDescription, work: Work) => {
      await new Promise((resolve) => void setImmediate(resolve))
      return work(HANDLE)
    },
  },
}

for (const [does, hooks] of Object.entries(WRONG)) {
  test(`a telemetry that ${does} loses, doubles and delays no message, and is told of at most once`, async () => {
    const warnings = warningsOf('TXBOX_TELEMETRY')
    const telemetry = hooks as Telemetry
    const queue = await broker.queue({ type: 'quorum' })
    const consumer = `consumer-${randomUUID()}`
    const publishing = createOutbox({ database: root.database, telemetry })
    for (let n = 0; n < 10; n++) {
      const transaction = await root.begin()
      await publishing.publish(transaction.tx, { topic: queue, id: `${consumer} ${n}`, key: 'a', payload: n })
      await transaction.commit()
    }
    await RelayUnderTest.started(root, broker.publisher({ exchange: '' }), { telemetry })
    const numbers: number[] = []
    const outcomes: string[] = []
    let hasFailed = false
    const subject = createConsumer({
      source: rabbitmqSource<number>({ url: broker.url, queue, keepsRejected: true }),
      inbox: createInbox({ database: root.database, consumer, telemetry }),
      concurrency: 1,
      prefetch: 1,
      handler: async (tx, { payload }) => {
        if (payload === 5 && !hasFailed) {
          hasFailed = true
          throw new Error('of the handler')
        }
        numbers.push(payload)
        await target.effect(tx, `${consumer} ${payload}`)
      },
      retry: { attempts: 5, delayMs: () => 1 },
      telemetry,
      logger: false,
    })
    subject.on('handled', ({ outcome }) => void outcomes.push(outcome))
    onTestFinished(() => subject.stop())
    await subject.start()
    await until(
      async () => outcomes.length === 10,
      () => `10 handled: ${outcomes.join()}`,
    )
    await outbox.settled()
    expect(hasFailed).toBe(true)
    expect(numbers.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 10 }, (_, n) => n))
    for (let n = 0; n < 10; n++) expect(await target.effects(`${consumer} ${n}`)).toBe(1)
    expect(warnings.length).toBe(does === 'begins the work, and never ends' ? 0 : 1)
  })
}
