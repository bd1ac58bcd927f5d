import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { BrokerUnavailableError } from '@txbox/rabbitmq'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import {
  failure,
  outboxMessage,
  outboxMessages,
  publish,
  reason,
  summary,
  useBroker,
} from './broker-under-test.ts'

const broker = useBroker()

/** The number of messages in these queues. */
async function arrivedIn(queues: readonly string[]): Promise<number> {
  const found = await Promise.all(queues.map((queue) => broker.channel.checkQueue(queue)))
  return found.reduce((sum, { messageCount }) => sum + messageCount, 0)
}

test('O6 a broker that confirms nothing: publish throws after confirmTimeoutMs, and the next call connects again', async () => {
  const proxy = await broker.frameProxy()
  const queue = await broker.queue()
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 300 })
  await publish(publisher, outboxMessages(queue, 1))
  proxy.hold()
  const startedAt = performance.now()
  const messages = outboxMessages(queue, 5)
  const error = await failure(publish(publisher, messages))
  expect(performance.now() - startedAt).toBeGreaterThan(280)
  expect(error).toBeInstanceOf(BrokerUnavailableError)
  expect(error.message).toContain('left 5 of 5 messages unconfirmed for 300 ms')
  proxy.release()
  expect(summary(await publish(publisher, messages))).toEqual(messages.map(() => 'accepted'))
  expect(proxy.connections).toBe(2)
})

test('O6 a dead connection that reports no error', async () => {
  const between = await UnreliableNetwork.to(broker.address)
  onTestFinished(() => between.close())
  const queue = await broker.queue()
  const publisher = broker.publisherAt(between, { confirmTimeoutMs: 300 })
  await publish(publisher, outboxMessages(queue, 1))
  between.abandon()
  // More than the buffers of the sockets hold: a call that waits for room in them rejects too.
  const messages = Array.from({ length: 40 }, () =>
    outboxMessage({
      topic: queue,
      payload: Buffer.alloc(1_000_000),
      contentType: 'application/octet-stream',
    }),
  )
  expect((await failure(publish(publisher, messages))).message).toContain(
    'left 40 of 40 messages unconfirmed',
  )
  expect(new Set(summary(await publish(publisher, messages)))).toEqual(new Set(['accepted']))
})

test('O6 a broker that has blocked publishers: the error contains the reason', async () => {
  const proxy = await broker.frameProxy()
  const queue = await broker.queue()
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 300 })
  await publish(publisher, outboxMessages(queue, 1))
  proxy.announceBlocked('low on disk')
  proxy.hold()
  const { message } = await failure(publish(publisher, outboxMessages(queue, 1)))
  expect(message).toContain('It has blocked publishers: low on disk.')
})

test('a broker that no longer blocks publishers: the error does not report a block', async () => {
  const proxy = await broker.frameProxy()
  const queue = await broker.queue()
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 300 })
  await publish(publisher, outboxMessages(queue, 1))
  proxy.announceBlocked('low on disk')
  proxy.announceUnblocked()
  await publish(publisher, outboxMessages(queue, 1))
  proxy.hold()
  const { message } = await failure(publish(publisher, outboxMessages(queue, 1)))
  expect(message).toContain('left 1 of 1 messages unconfirmed for 300 ms. Check its log')
})

test('a broker that does not read: memory is bounded', async () => {
  const proxy = await broker.frameProxy()
  const queue = await broker.queue()
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 500 })
  await publish(publisher, outboxMessages(queue, 1))
  proxy.freeze()
  // All messages share one payload, so any further memory is that of buffers.
  const payload = Buffer.alloc(1_000_000)
  const messages = Array.from({ length: 400 }, () =>
    outboxMessage({ topic: queue, payload, contentType: 'application/octet-stream' }),
  )
  const before = process.memoryUsage().arrayBuffers
  const call = failure(publish(publisher, messages))
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(150_000_000)
  expect((await call).message).toContain('left 400 of 400')
})

// This happens with a quorum queue that has no majority, in a cluster that otherwise works.
test('O4 one message that is not confirmed is the only one that is rejected, for another attempt', async () => {
  const proxy = await broker.frameProxy()
  const queue = await broker.queue()
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 300 })
  const messages = outboxMessages(queue, 20)
  proxy.hideConfirm(20)
  const results = await publish(publisher, messages)
  expect(summary(results)).toEqual(messages.map((_, n) => (n < 19 ? 'accepted' : 'rejected for now')))
  expect(reason(results[19])).toContain(
    `Message ${messages[19]?.id} was not confirmed within 300 ms, although RabbitMQ answers`,
  )
  // Its confirm may still arrive, and must not be treated as the confirm of another attempt.
  expect(summary(await publish(publisher, outboxMessages(await broker.queue(), 1)))).toEqual(['accepted'])
  expect(proxy.connections).toBe(2)
})

test('O6 a returned message that was not sent: one message is lost, and none counts as published', async () => {
  const proxy = await broker.frameProxy()
  const queue = await broker.queue()
  const publisher = broker.publisherAt(proxy)
  const nowhere = outboxMessage({ id: 'message-1', topic: broker.name('queue') })
  proxy.misname('message-1', 'message-2')
  // The other messages are confirmed after it.
  const error = await failure(publish(publisher, [nowhere, ...outboxMessages(queue, 3)]))
  expect(error).toBeInstanceOf(BrokerUnavailableError)
  expect(error.message).toContain('returned a message that is not in flight, with the id "message-2"')
  proxy.misname('message-1', 'message-1')
  expect(summary(await publish(publisher, [nowhere]))).toEqual(['rejected for now'])
  expect(proxy.connections).toBe(2)
})

test('O6 if other messages were confirmed but the broker stops answering, publish throws', async () => {
  const proxy = await broker.frameProxy()
  const queue = await broker.queue()
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 300 })
  proxy.hideConfirm(20)
  const call = failure(publish(publisher, outboxMessages(queue, 20)))
  while (proxy.acks === 0) await new Promise((resolve) => setTimeout(resolve, 1))
  await new Promise((resolve) => setTimeout(resolve, 100))
  proxy.hold()
  expect((await call).message).toMatch(/left \d+ of 20 messages unconfirmed/)
})

test('a slow broker does not count as silent: the timeout is counted from the last confirm', async () => {
  const proxy = await broker.frameProxy()
  const queue = await broker.queue({ type: 'quorum' })
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 600 })
  await publish(publisher, outboxMessages(queue, 1))
  const startedAt = performance.now()
  proxy.hold()
  const trickle = setInterval(() => proxy.releaseOne(), 25)
  onTestFinished(() => clearInterval(trickle))
  const results = await publish(publisher, outboxMessages(queue, 60))
  expect(new Set(summary(results))).toEqual(new Set(['accepted']))
  expect(performance.now() - startedAt).toBeGreaterThan(1000)
})

test('a slow connection does not count as dead: the timeout is also counted from the last message that could be sent', async () => {
  const proxy = await broker.frameProxy()
  const queues = await Promise.all(Array.from({ length: 4 }, () => broker.queue()))
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 2000 })
  await publish(publisher, outboxMessages(queues[0]!, 1))
  proxy.hold()
  proxy.slowDown(4)
  const payload = Buffer.alloc(20_000)
  const messages = Array.from({ length: 1900 }, (_, n) =>
    outboxMessage({ topic: queues[n % 4]!, payload, contentType: 'application/octet-stream' }),
  )
  const startedAt = performance.now()
  const call = publish(publisher, messages)
  while ((await arrivedIn(queues)) <= messages.length) await pause(10)
  expect(performance.now() - startedAt).toBeGreaterThan(2000)
  proxy.release()
  expect(new Set(summary(await call))).toEqual(new Set(['accepted']))
})

test('at most 2000 messages are in flight', async () => {
  const proxy = await broker.frameProxy()
  const queues = await Promise.all(Array.from({ length: 5 }, () => broker.queue()))
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 1000 })
  await publish(publisher, outboxMessages(queues[0]!, 1))
  proxy.hold()
  const call = failure(
    publish(
      publisher,
      queues.flatMap((queue) => outboxMessages(queue, 480)),
    ),
  )
  while ((await arrivedIn(queues)) < 2001) await pause(10)
  await pause(100)
  expect(await arrivedIn(queues)).toBe(2001)
  expect((await call).message).toContain('left 2400 of 2400 messages unconfirmed')
})

test('O4 a message that is confirmed too late is accepted, and the message behind it is sent over the next connection', async () => {
  const proxy = await broker.frameProxy()
  const queue = await broker.queue()
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 500 })
  const [late, behind] = [
    outboxMessage({ topic: queue, key: 'k' }),
    outboxMessage({ topic: queue, key: 'k' }),
  ]
  proxy.delayConfirm(1)
  const call = publish(publisher, [late, behind, ...outboxMessages(queue, 19)])
  while (proxy.acks === 0) await pause(1)
  await pause(200)
  // After the timeout the publisher checks whether the broker still answers.
  proxy.hold()
  while (proxy.held === 0) await pause(1)
  proxy.releaseConfirm(1)
  await pause(50)
  proxy.release()
  expect(new Set(summary(await call))).toEqual(new Set(['accepted']))
  const ids = await broker.ids(queue)
  expect(ids.filter((id) => id === late.id || id === behind.id)).toEqual([late.id, behind.id])
  expect(proxy.connections).toBe(2)
})
