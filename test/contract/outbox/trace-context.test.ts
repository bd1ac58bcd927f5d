import { expect, test } from 'vitest'
import type { NewMessage, Telemetry, TraceContext } from '@txbox/core'
import { createOutbox, type OutboxOptions } from '@txbox/outbox'
import { createDeadLetters } from '@txbox/relay'
import { Broker, rejected } from '../../support/worlds/broker.ts'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { QueueUnderTest } from '../../support/subjects/queue-under-test.ts'
import { messagesOf, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { StubTelemetry, someContext } from '../../support/subjects/stub-telemetry.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { warningsOf } from '../../support/worlds/warnings.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 12 })

async function publish(
  messages: NewMessage | readonly NewMessage[],
  options: Partial<OutboxOptions> = {},
): Promise<void> {
  const transaction = await root.begin()
  await createOutbox({ database: root.database, ...options }).publish(transaction.tx, messages)
  await transaction.commit()
}

async function relayed(count: number): Promise<readonly Readonly<Record<string, string>>[]> {
  const broker = new Broker()
  await RelayUnderTest.started(root, broker.publisher())
  await broker.received(count)
  await outbox.settled()
  return broker.log.map(({ message }) => message.headers)
}

function headersOf({ traceparent, tracestate }: TraceContext): Readonly<Record<string, string>> {
  return tracestate === undefined ? { traceparent } : { traceparent, tracestate }
}

test('T8 the captured context of a call travels with each of its messages, and is captured once', async () => {
  const telemetry = new StubTelemetry(someContext('vendor=1'))
  const later = { topic: 'test', payload: {}, deliverAt: new Date(Date.now() - 1000) }
  await publish([...messagesOf('a', 2), ...messagesOf(undefined, 1), later], { telemetry })
  await publish(messagesOf('b', 1)[0]!, { telemetry, lockKeys: true })
  await publish(messagesOf('c', 2), { telemetry, lockKeys: true })
  expect(telemetry.captures).toBe(3)
  const headers = await relayed(7)
  expect(headers).toEqual(Array.from({ length: 7 }, () => headersOf(telemetry.context!)))
})

test('T8 a traceparent header of the message takes precedence, in any case of its name', async () => {
  const own = [someContext('own=1'), someContext()]
  const telemetry = new StubTelemetry(someContext('vendor=1'))
  await publish(
    [
      { topic: 'test', key: 'a', payload: 1, headers: { ...headersOf(own[0]!), other: 'kept' } },
      { topic: 'test', key: 'a', payload: 2, headers: { TraceParent: own[1]!.traceparent } },
      { topic: 'test', key: 'a', payload: 3, headers: { other: 'kept' } },
    ],
    { telemetry },
  )
  await publish({ topic: 'test', key: 'a', payload: 4, headers: headersOf(own[0]!) })
  expect(await relayed(4)).toEqual([
    { ...headersOf(own[0]!), other: 'kept' },
    headersOf(own[1]!),
    { ...headersOf(telemetry.context!), other: 'kept' },
    headersOf(own[0]!),
  ])
})

test('T8 without a telemetry and without a header, a message has no context', async () => {
  await publish({ topic: 'test', payload: 1, headers: { other: 'kept' } })
  expect(await relayed(1)).toEqual([{ other: 'kept' }])
})

test('T8 an invalid context of a message is dropped, with one warning', async () => {
  const warnings = warningsOf('TXBOX_INVALID_TRACEPARENT')
  const { traceparent } = someContext()
  for (const headers of [
    { traceparent: 'nonsense', tracestate: 'a=1', other: 'kept' },
    { traceparent, tracestate: 'N', other: 'kept' },
    { tracestate: 'a=1', other: 'kept' },
  ]) {
    await publish({ topic: 'test', key: 'a', payload: 1, headers })
  }
  expect(await relayed(3)).toEqual([{ other: 'kept' }, { traceparent, other: 'kept' }, { other: 'kept' }])
  expect(warnings.length).toBeLessThanOrEqual(1)
})

test('T8 the context is kept through parking, a dead letter and its redrive', async () => {
  const contexts = [someContext('a=1'), someContext()]
  await publish(
    contexts.map((context) => ({ topic: 'test', key: 'a', payload: 1, headers: headersOf(context) })),
  )
  const broker = new Broker()
  const publisher = broker.publisher({
    respond: (call) => call.messages.map(() => rejected({ retryable: true })),
  })
  const subject = await RelayUnderTest.started(root, publisher, {
    retry: { attempts: 2, delayMs: () => 1 },
  })
  await subject.hears('dead-lettered', 2)
  const seen = broker.calls.flatMap(({ messages }) => messages.map(({ headers }) => headers))
  expect(seen.length).toBeGreaterThanOrEqual(4)
  for (const headers of seen) expect(contexts.map(headersOf)).toContainEqual(headers)
  publisher.respond = (call) => call.acceptAll()
  const letters = createDeadLetters({ database: root.database })
  await letters.redrive({ topic: 'test' })
  await broker.received(2)
  await outbox.settled()
  expect(broker.log.map(({ message }) => message.headers)).toEqual(contexts.map(headersOf))
})

test('T8 the handler of a local consumer gets the context, also after an attempt that failed', async () => {
  const telemetry = new StubTelemetry(someContext('a=1'))
  const subject = new LocalUnderTest(target, root, ['billing'], { telemetry })
  await subject.publish({ key: 'a' }, { key: 'b', headers: { other: 'kept' } })
  await subject.publishTogether([{ key: 'c' }, { key: 'd', deliverAt: new Date(Date.now() - 1000) }])
  const failed = new Set<string>()
  await subject.start('billing', (_, { id }) => {
    if (failed.has(id)) return
    failed.add(id)
    throw new Error('the first attempt')
  })
  await subject.settled()
  const expected = headersOf(telemetry.context!)
  expect(subject.runs.length).toBe(8)
  for (const { message } of subject.runs) {
    expect(message.headers).toEqual(message.key === 'b' ? { ...expected, other: 'kept' } : expected)
  }
})

test('T8 a receiver of a queue gets the context, also of a scheduled message', async () => {
  const telemetry: Telemetry = new StubTelemetry(someContext('a=1'))
  const subject = new QueueUnderTest(target, root, { telemetry })
  await subject.send({ key: 'a' }, {}, { deliverAt: new Date(Date.now() - 1000) })
  const transaction = await root.begin()
  await subject.queue.send(transaction.tx, [{ payload: 1 }, { payload: 2 }])
  await transaction.commit()
  const received = []
  for (let n = 0; n < 20 && received.length < 5; n++)
    received.push(...(await subject.queue.receive({ limit: 10 })))
  const expected = headersOf(telemetry.capture()!)
  expect(received.map(({ message }) => message.headers)).toEqual(Array.from({ length: 5 }, () => expected))
})
