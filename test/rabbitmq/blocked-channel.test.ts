import { expect, onTestFinished, test } from 'vitest'
import { BlockingProxy } from './blocking-proxy.ts'
import {
  OFFENCE,
  outboxMessage,
  outboxMessages,
  publish,
  reason,
  summary,
  useBroker,
} from './broker-under-test.ts'

const broker = useBroker()

async function blockingProxy(target = broker.address): Promise<BlockingProxy> {
  const proxy = await BlockingProxy.to(target)
  onTestFinished(() => proxy.close())
  return proxy
}

test('O4 O15 a queue that blocks the channel delays the messages of other queues only once', async () => {
  const proxy = await blockingProxy()
  const [stuck, good, other] = [await broker.queue(), await broker.queue(), await broker.queue()]
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 1000 })
  proxy.block(stuck)
  const results = await publish(publisher, [
    ...outboxMessages(stuck, 3),
    ...outboxMessages(good, 20),
    outboxMessage({ id: 'a', topic: other, key: 'k' }),
    outboxMessage({ id: 'b', topic: good, key: 'k' }),
    outboxMessage({ id: 'c', topic: other, key: 'k' }),
  ])
  expect(new Set(summary(results.slice(0, 3)))).toEqual(new Set(['rejected for now']))
  for (const result of results.slice(0, 3)) expect(result).toMatchObject({ counted: false })
  expect(reason(results[0])).toContain('although RabbitMQ answers')
  expect(new Set(summary(results.slice(3)))).toEqual(new Set(['accepted']))
  expect(await broker.ids(other)).toEqual(['a', 'c'])
  expect(await broker.ids(stuck)).toEqual([])

  const { blocked } = proxy
  const startedAt = performance.now()
  const later = await publish(publisher, [...outboxMessages(stuck, 20), outboxMessage({ topic: good })])
  expect(performance.now() - startedAt).toBeLessThan(1000)
  expect(new Set(summary(later.slice(0, 20)))).toEqual(new Set(['rejected for now']))
  expect(later[20]).toEqual({ status: 'accepted' })
  expect(proxy.blocked).toBe(blocked)
})

test('O4 O15 when a message that is sent alone blocks its channel, the other messages of its call are published', async () => {
  const proxy = await blockingProxy((await broker.offendingProxy()).address)
  const [stuck, good] = [await broker.queue(), await broker.queue()]
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 500 })
  proxy.block(stuck)
  const messages = [
    outboxMessage({ topic: good, ...OFFENCE }),
    ...outboxMessages(stuck, 2),
    outboxMessage({ topic: good }),
    outboxMessage({ topic: good, ...OFFENCE }),
    outboxMessage({ topic: good }),
  ]
  const results = await publish(publisher, messages)
  expect(summary(results)).toEqual([
    'rejected for good',
    'rejected for now',
    'rejected for now',
    'accepted',
    'rejected for good',
    'accepted',
  ])
  for (const result of results.slice(1, 3)) expect(result).toMatchObject({ counted: false })
})
