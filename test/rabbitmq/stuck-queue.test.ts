import { expect, test } from 'vitest'
import type { PublishResult } from '@txbox/rabbitmq'
import {
  outboxMessage,
  outboxMessages,
  publish,
  reason,
  signal,
  summary,
  useBroker,
} from './broker-under-test.ts'

const broker = useBroker()

// This happens with a quorum queue that has no majority, in a cluster that otherwise works.
test('O4 O15 a queue that confirms nothing delays none of the messages of other queues', async () => {
  const proxy = await broker.frameProxy()
  const [stuck, good] = [await broker.queue(), await broker.queue()]
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 1500 })
  const messages = [...outboxMessages(stuck, 3000), ...outboxMessages(good, 200)]
  for (let tag = 1; tag <= 1500; tag += 1) proxy.hideConfirm(tag)
  const startedAt = performance.now()
  const first = Promise.withResolvers<number>()
  const answered = (index: number, { status }: PublishResult): void => {
    if (index === 3199 && status === 'accepted') first.resolve(performance.now() - startedAt)
  }
  const call = publisher.publish(messages, { signal: signal(), answered })
  expect(await first.promise).toBeLessThan(1000)

  const results = await call
  expect(new Set(summary(results.slice(0, 3000)))).toEqual(new Set(['rejected for now']))
  for (const result of results.slice(0, 3000)) expect(result).toMatchObject({ counted: false })
  expect(new Set(summary(results.slice(3000)))).toEqual(new Set(['accepted']))
  expect(reason(results[0])).toContain('was not confirmed within 1500 ms, although RabbitMQ answers')
  expect(reason(results[2999])).toContain('was not sent, because RabbitMQ did not confirm others like it')
  expect((await broker.ids(stuck)).length).toBe(1500)

  // The messages behind them are rejected at once: a deep backlog holds up the other queues only once.
  proxy.showConfirms()
  const again = performance.now()
  const later = await publish(publisher, [...outboxMessages(stuck, 1000), outboxMessage({ topic: good })])
  expect(performance.now() - again).toBeLessThan(1000)
  expect(later.slice(0, 1000).every(({ status }) => status === 'rejected')).toBe(true)
  expect(later[1000]).toEqual({ status: 'accepted' })
})

test('O4 O15 when queues that confirm nothing fill the window, the other messages are sent after the timeout', async () => {
  const proxy = await broker.frameProxy()
  const stuck = await Promise.all(Array.from({ length: 4 }, () => broker.queue()))
  const good = await broker.queue()
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 1000 })
  // On the first connection no message is confirmed.
  for (let tag = 1; tag <= 2000; tag += 1) proxy.hideConfirm(tag)
  const call = publish(publisher, [
    ...stuck.flatMap((queue) => outboxMessages(queue, 600)),
    outboxMessage({ id: 'a', topic: good, key: 'k' }),
    outboxMessage({ id: 'b', topic: good, key: 'k' }),
  ])
  while (proxy.connections < 2) await new Promise((resolve) => setTimeout(resolve, 1))
  proxy.showConfirms()
  const results = await call
  expect(new Set(summary(results.slice(0, 2400)))).toEqual(new Set(['rejected for now']))
  expect(summary(results.slice(2400))).toEqual(['accepted', 'accepted'])
  expect(await broker.ids(good)).toEqual(['a', 'b'])
})

test('O15 while a queue confirms nothing, the messages of other calls that wait for it are not lost', async () => {
  const proxy = await broker.frameProxy()
  const stuck = await broker.queue()
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 500 })
  for (let tag = 1; tag <= 1500; tag += 1) proxy.hideConfirm(tag)
  const calls = Array.from({ length: 4 }, () => publish(publisher, outboxMessages(stuck, 600)))
  const outcomes = await Promise.allSettled(calls)
  // A call that was in flight on the connection that was dropped may throw: the relay publishes its messages again.
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') expect(String(outcome.reason)).toContain('unconfirmed for 500 ms')
    else
      for (const result of outcome.value) expect(result).toMatchObject({ status: 'rejected', counted: false })
  }
  expect(outcomes.some(({ status }) => status === 'fulfilled')).toBe(true)
})
