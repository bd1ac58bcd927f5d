import { expect, onTestFinished, test, vi } from 'vitest'
import { exponentialBackoff } from '@txbox/relay'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { RelayUnderTest, publishAll } from '../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import { outboxMessage, outboxMessages, publish, reason, summary, useBroker } from './broker-under-test.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target))
const broker = useBroker()

/** An exchange with one queue, whose binding a test takes away and brings back. */
async function boundQueue() {
  const [exchange, queue] = [await broker.exchange(), await broker.queue()]
  const routingKey = 'orders.paid'
  const bind = async (): Promise<unknown> => broker.channel.bindQueue(queue, exchange, routingKey)
  const unbind = async (): Promise<unknown> => broker.channel.unbindQueue(queue, exchange, routingKey)
  await bind()
  return { exchange, queue, routingKey, bind, unbind }
}

/** The pauses of the publisher are over when the test says so. */
function handClock(): (ms: number) => void {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  return (ms) => void vi.advanceTimersByTime(ms)
}

test('O15 a message whose routing key was routed before is not counted; one message at a time is tried, each 30 s, until the binding is back', async () => {
  const advance = handClock()
  const { exchange, queue, routingKey, bind, unbind } = await boundQueue()
  const publisher = broker.publisher({ exchange })
  const first = outboxMessages(routingKey, 3)
  expect(summary(await publish(publisher, first))).toEqual(['accepted', 'accepted', 'accepted'])

  await unbind()
  const unrouted = await publish(publisher, outboxMessages(routingKey, 3))
  for (const result of unrouted) {
    expect(result).toMatchObject({ status: 'rejected', retryable: true, counted: false })
    expect(reason(result)).toMatch(/was not routed: no queue is bound to exchange .*routed before/)
  }
  // The messages of the next 30 s are not sent, whether the binding is back or not.
  await bind()
  for (const result of await publish(publisher, outboxMessages(routingKey, 3))) {
    expect(result).toMatchObject({ status: 'rejected', retryable: true, counted: false })
    expect(reason(result)).toMatch(
      /was not sent, because .*312 NO_ROUTE.*one message of this routing key is tried/,
    )
  }
  expect(await broker.ids(queue)).toEqual(first.map(({ id }) => id))

  await unbind()
  for (let round = 0; round < 12; round++) {
    advance(30_000)
    const results = await publish(publisher, outboxMessages(routingKey, 3))
    for (const result of results) expect(result).toMatchObject({ status: 'rejected', counted: false })
    expect(results.map((result) => reason(result).includes('was not routed'))).toEqual([true, false, false])
  }
  await bind()
  advance(30_000)
  const [probe, ...others] = outboxMessages(routingKey, 3)
  expect(summary(await publish(publisher, [probe!]))).toEqual(['accepted'])
  expect(summary(await publish(publisher, others))).toEqual(['accepted', 'accepted'])
  expect(await broker.ids(queue)).toEqual([probe, ...others].map((message) => message?.id))
})

test('O4 O15 the key of a message that waits for its binding waits with it; other routing keys go on', async () => {
  handClock()
  const { exchange, queue, routingKey, unbind } = await boundQueue()
  await broker.channel.bindQueue(queue, exchange, 'orders.other')
  const publisher = broker.publisher({ exchange })
  await publish(publisher, outboxMessages(routingKey, 1))
  await unbind()
  const messages = [routingKey, 'orders.other', 'orders.other'].map((topic, n) =>
    outboxMessage({ topic, ...(n < 2 && { key: 'k' }) }),
  )
  for (let round = 0; round < 2; round++) {
    expect(summary(await publish(publisher, messages))).toEqual(['rejected for now', 'skipped', 'accepted'])
  }
})

test('O11 a routing key that was never routed is counted, whatever other routing keys do', async () => {
  const { exchange, routingKey } = await boundQueue()
  const publisher = broker.publisher({ exchange })
  const messages = [routingKey, 'orders.misspelt'].map((topic) => outboxMessage({ topic }))
  for (let attempt = 0; attempt < 3; attempt++) {
    const results = await publish(publisher, messages)
    expect(summary(results)).toEqual(['accepted', 'rejected for now'])
    expect(results[1]).not.toHaveProperty('counted')
  }
})

test('O15 a queue of the default exchange that is deleted and declared again is the same as a binding that was away', async () => {
  const advance = handClock()
  const queue = broker.name('queue')
  broker.deleteAfterwards(queue)
  const publisher = broker.publisher({ exchange: '' })
  const [never] = await publish(publisher, outboxMessages(queue, 1))
  expect(never).not.toHaveProperty('counted')
  await broker.channel.assertQueue(queue)
  expect(summary(await publish(publisher, outboxMessages(queue, 1)))).toEqual(['accepted'])
  await broker.channel.deleteQueue(queue)
  expect(await publish(publisher, outboxMessages(queue, 1))).toMatchObject([{ counted: false }])
  await broker.channel.assertQueue(queue)
  advance(30_000)
  expect(summary(await publish(publisher, outboxMessages(queue, 1)))).toEqual(['accepted'])
})

test('O5 O15 a binding that is away for longer than all attempts makes no dead letter, and its messages arrive in order', async () => {
  const { exchange, queue, routingKey, bind, unbind } = await boundQueue()
  const retry = exponentialBackoff({ attempts: 2, minMs: 1, maxMs: 1 })
  const subject = await RelayUnderTest.started(root, broker.publisher({ exchange }), { retry })
  const topic = routingKey
  await publishAll(root, [{ topic, key: 'k', payload: 1 }])
  await outbox.settled()
  await unbind()
  await publishAll(
    root,
    [2, 3].map((payload) => ({ topic, key: 'k', payload })),
  )
  for (let attempt = 1; attempt <= 4; attempt++) {
    await subject.hears('parked', attempt)
    await target.sql('update txbox.parked set due_at = now() where due_at is not null')
  }
  expect(subject.heard('parked').every(({ attempt }) => attempt === 0)).toBe(true)
  expect(subject.heard('dead-lettered')).toEqual([])
  // Another publisher need not wait for the pause of the first one.
  await bind()
  const restarted = await RelayUnderTest.started(root, broker.publisher({ exchange }))
  await subject.relay.stop()
  await until(
    async () => {
      await target.sql('update txbox.parked set due_at = now() where due_at is not null')
      return (await outbox.backlogSize()) === 0
    },
    () => restarted.describeErrors(),
  )
  expect((await broker.take(queue)).map(({ content }) => JSON.parse(String(content)))).toEqual([1, 2, 3])
})
