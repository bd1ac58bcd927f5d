import type { Telemetry } from '@txbox/core'
import { atLeastOnce } from 'txbox'
import { expect, test } from 'vitest'
import { BoxUnderTest, type BoxHandler } from '../../support/subjects/box-under-test.ts'
import { GaugesUnderTest } from '../../support/subjects/gauges-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { someContext } from '../../support/subjects/stub-telemetry.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 16 })

async function settles(source: MemorySource, count: number): Promise<void> {
  await until(
    async () => source.settled.length >= count,
    () => JSON.stringify(source.settled),
  )
}

/** A box with one source. */
async function started(
  handlers: Readonly<Record<string, BoxHandler | object>>,
  options: object = {},
): Promise<{ subject: BoxUnderTest; source: MemorySource }> {
  const subject = new BoxUnderTest(target, root)
  const source = new MemorySource()
  const entry = { source, handlers: subject.handlers('payments', handlers), concurrency: 4, ...options }
  await subject.start({}, { sources: { [subject.name('payments')]: entry } })
  return { subject, source }
}

function send(source: MemorySource, subject: BoxUnderTest, id: string, type: string): void {
  source.send(id, { type: subject.type(type) })
}

test('C5 a message of a source has its effect once, by an inbox that has the name of the entry', async () => {
  const { subject, source } = await started({ paid: () => undefined })
  send(source, subject, 'm1', 'paid')
  await settles(source, 1)
  send(source, subject, 'm1', 'paid')
  await settles(source, 2)
  expect(await subject.effectsInOrder('payments')).toEqual(['m1'])
  expect(source.settled.map(({ how }) => how)).toEqual(['accept', 'accept'])
  const claims = await target.sql(`select count(*) as n from ${inboxTable()} where consumer = ?`, [
    subject.parameterOf('payments'),
  ])
  expect(Number(claims[0]?.['n'])).toBe(1)
})

function inboxTable(): string {
  return target.outboxTable.replace(/outbox$/, 'inbox')
}

test('T3 T7 a handler of a source publishes in its transaction, with its message as the cause, and the consumers look at once', async () => {
  const subject = new BoxUnderTest(target, root)
  const source = new MemorySource()
  const handlers = subject.handlers('billing', { billed: () => undefined })
  const asleep = { pollIntervalMs: { min: 60_000, max: 60_000 } }
  let attempts = 0
  const paid: BoxHandler = async () => {
    attempts += 1
    await box.publish(subject.message('billed'))
    if (attempts === 1) throw new Error('not yet')
  }
  const box = subject.created({
    consumers: { [subject.name('billing')]: { handlers, concurrency: 4, ...asleep } },
    sources: {
      [subject.name('payments')]: {
        source,
        handlers: subject.handlers('payments', { paid }),
        concurrency: 4,
        retry: { attempts: 5, delayMs: () => 500 },
      },
    },
    gc: false,
    logger: false,
  })
  await box.start()
  send(source, subject, 'm1', 'paid')
  await subject.hasEffects(1, 'billing', 10_000)
  expect(
    subject.runs.filter(({ consumer }) => consumer === 'billing').map(({ message }) => message),
  ).toMatchObject([{ correlationId: 'm1', causationId: 'm1' }])
  expect(attempts).toBe(2)
})

test('C5 a handler of a source that is at least once has no claim and no transaction', async () => {
  const calls: unknown[][] = []
  const { subject, source } = await started({
    paid: () => undefined,
    mailed: atLeastOnce((...args: unknown[]) => {
      calls.push(args)
      if (calls.length === 1) throw new Error('not yet')
    }),
  })
  send(source, subject, 'm1', 'mailed')
  send(source, subject, 'm2', 'paid')
  await until(
    async () => source.settled.filter(({ how }) => how === 'accept').length === 2,
    () => JSON.stringify(source.settled),
  )
  expect(calls).toHaveLength(2)
  expect(calls[0]).toHaveLength(2)
  const keys = calls.map(([, context]) => Reflect.get(context as object, 'idempotencyKey') as unknown)
  expect(new Set(keys)).toEqual(new Set([keys[0]]))
  expect(keys[0]).toMatch(/^[0-9a-f]{64}$/)
  expect(await subject.effectsInOrder('payments')).toEqual(['m2'])
})

test('C5 a handler of a source at least once that hangs is given up after handleTimeoutMs', async () => {
  const signals: AbortSignal[] = []
  const { subject, source } = await started(
    {
      mailed: atLeastOnce((_, { signal }) => {
        signals.push(signal)
        return signals.length === 1 ? new Promise(() => undefined) : undefined
      }),
    },
    { handleTimeoutMs: 300, retry: { attempts: 3, delayMs: () => 10 } },
  )
  send(source, subject, 'm1', 'mailed')
  await until(
    async () => source.settled.some(({ how }) => how === 'accept'),
    () => JSON.stringify(source.settled),
  )
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, false])
})

test('a message whose type has no handler at a source is a dead letter, or ignored', async () => {
  const { subject, source } = await started({ paid: () => undefined })
  send(source, subject, 'm1', 'unknown')
  source.send('m2')
  await settles(source, 2)
  expect(source.settled).toMatchObject([{ how: 'reject' }, { how: 'reject' }])
  expect(String(source.settled[0]?.error)).toMatch(
    /has no handler for the type 'unknown-.*unhandled: 'ignore'/,
  )
  expect(String(source.settled[1]?.error)).toMatch(/no handler for a message without a type/)
  const ignoring = await started({ paid: () => undefined }, { unhandled: 'ignore' })
  send(ignoring.source, ignoring.subject, 'm1', 'unknown')
  await settles(ignoring.source, 1)
  expect(ignoring.source.settled).toMatchObject([{ how: 'accept' }])
})

test('the telemetry of a box gets the spans, counts and gauges of its sources and of their inboxes', async () => {
  const telemetry = new GaugesUnderTest()
  const counted: (readonly [string, object])[] = []
  const count: Telemetry['count'] = (metric, _, attributes) => void counted.push([metric, attributes])
  Object.assign(telemetry, { count })
  const subject = new BoxUnderTest(target, root)
  const source = new MemorySource()
  const entry = { source, handlers: subject.handlers('payments', { paid: () => undefined }) }
  const name = subject.name('payments')
  const box = await subject.start({}, { sources: { [name]: entry }, telemetry })
  const { traceparent } = someContext()
  source.send('m1', { type: subject.type('paid'), headers: { traceparent } })
  await settles(source, 1)
  expect(telemetry.spans.map((span) => span.name)).toEqual([`process ${name}`])
  expect(telemetry.spans[0]!.parent).toEqual({ traceparent })
  expect(telemetry.spans[0]!.set).toMatchObject({ 'txbox.inbox.outcome': 'processed' })
  const group = { 'messaging.consumer.group.name': name }
  expect(counted).toContainEqual(['messaging.client.consumed.messages', expect.objectContaining(group)])
  expect(counted).toContainEqual(['txbox.consumer.deliveries', { consumer: name }])
  expect(counted).toContainEqual(['txbox.inbox.messages', { consumer: name, outcome: 'processed' }])
  expect(await telemetry.value('txbox.consumer.in_flight.messages', { consumer: name })).toBe(0)
  await until(
    async () => (await telemetry.value('txbox.outbox.backlog.messages')) === 0,
    () => 'the gauges of the tables',
  )
  await box.stop()
  expect(telemetry.size).toBe(0)
})
