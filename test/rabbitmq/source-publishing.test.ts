import { expect, onTestFinished, test } from 'vitest'
import { SourcePublishing } from '../../packages/rabbitmq/src/receive/source-publishing.ts'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const broker = useBroker()
const body = Buffer.from('{"orderId":1}')

function publishing(how: { url?: string; confirmTimeoutMs?: number } = {}): SourcePublishing {
  const address = {
    url: how.url ?? broker.url,
    name: 'the broker of the test',
    user: 'guest',
    server: { address: 'localhost', port: 5672 },
  }
  const settings = { address, tls: {}, connectTimeoutMs: 5000 }
  const subject = new SourcePublishing(settings, 'txbox test', how.confirmTimeoutMs)
  onTestFinished(() => subject.close())
  return subject
}

test('Messages that overlap arrive with their bytes, properties and headers', async () => {
  const queue = await broker.queue()
  const subject = publishing()
  await Promise.all(
    Array.from({ length: 500 }, (_, n) =>
      subject.publish('', queue, body, { messageId: `m${n}`, headers: { n, nested: { a: [1, 'b'] } } }),
    ),
  )
  const taken = await broker.take(queue)
  expect(taken.map(({ properties }) => properties.messageId as string).toSorted()).toEqual(
    Array.from({ length: 500 }, (_, n) => `m${n}`).toSorted(),
  )
  expect(taken[7]!.content).toEqual(body)
  expect(taken[7]!.properties.headers).toEqual({ n: 7, nested: { a: [1, 'b'] } })
  expect(taken[7]!.properties.deliveryMode).toBe(2)
})

test('A message that is routed to no queue is refused for now, and its neighbours are confirmed', async () => {
  const queue = await broker.queue()
  const nowhere = broker.name('queue')
  const subject = publishing()
  const results = await Promise.allSettled(
    [queue, nowhere, nowhere, queue].map((key) => subject.publish('', key, body, {})),
  )
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected', 'fulfilled'])
  expect(results[1]).toMatchObject({
    reason: { code: 'TXBOX_RETRY_LATER', message: expect.stringContaining('routed it to no queue') },
  })
  expect(await broker.take(queue)).toHaveLength(2)
})

test('A message that a full queue refuses is refused for now', async () => {
  const queue = await broker.queue({ arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' } })
  const subject = publishing()
  await subject.publish('', queue, body, { messageId: 'first' })
  await expect(subject.publish('', queue, body, { messageId: 'second' })).rejects.toMatchObject({
    code: 'TXBOX_RETRY_LATER',
    message: expect.stringContaining('nack'),
  })
})

test('An exchange that does not exist refuses for now, and the other messages are published', async () => {
  const queue = await broker.queue()
  const subject = publishing()
  const results = await Promise.allSettled([
    subject.publish('', queue, body, { messageId: 'a' }),
    subject.publish(broker.name('exchange'), 'key', body, { messageId: 'b' }),
    subject.publish('', queue, body, { messageId: 'c' }),
  ])
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(results[1]).toMatchObject({
    reason: { code: 'TXBOX_RETRY_LATER', message: expect.stringContaining('NOT_FOUND') },
  })
  expect(new Set(await broker.ids(queue))).toEqual(new Set(['a', 'c']))
})

test.each([
  ['a header name of 300 bytes', { headers: { ['n'.repeat(300)]: 'v' } }],
  ['headers of 70,000 bytes', { headers: { n: 'v'.repeat(70_000) } }],
  ['an id of 256 bytes', { messageId: 'ж'.repeat(128) }],
  ['a text as CC', { headers: { CC: 'text' } }],
  ["another user's id", { userId: 'somebody-else' }],
])('A message with %s is refused for good, and its neighbours are published', async (_, options) => {
  const queue = await broker.queue()
  const subject = publishing()
  const results = await Promise.allSettled([
    subject.publish('', queue, body, { messageId: 'a' }),
    subject.publish('', queue, body, options),
    subject.publish('', queue, body, { messageId: 'c' }),
  ])
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(results[1]).toMatchObject({ reason: { code: 'TXBOX_PERMANENT' } })
  expect(new Set(await broker.ids(queue))).toEqual(new Set(['a', 'c']))
})

test('Headers that do not fit into a frame of the connection are refused for good', async () => {
  const queue = await broker.queue()
  const url = new URL(broker.url)
  url.searchParams.set('frameMax', '8192')
  const subject = publishing({ url: url.href })
  const headers = { n: { nested: ['v'.repeat(9000)] } }
  await expect(subject.publish('', queue, body, { headers })).rejects.toMatchObject({
    code: 'TXBOX_PERMANENT',
  })
  await subject.publish('', queue, body, { headers: { n: 'v'.repeat(8000) } })
})

test('A message that is not confirmed in time is refused for now, and the next one gets another channel', async () => {
  const queue = await broker.queue()
  const proxy = await broker.frameProxy()
  const subject = publishing({ url: broker.urlAt(proxy.address), confirmTimeoutMs: 200 })
  await subject.publish('', queue, body, { messageId: 'a' })
  proxy.hideConfirm(2)
  await expect(subject.publish('', queue, body, { messageId: 'b' })).rejects.toMatchObject({
    code: 'TXBOX_RETRY_LATER',
    message: expect.stringContaining('did not confirm'),
  })
  proxy.showConfirms()
  await subject.publish('', queue, body, { messageId: 'c' })
  await until(
    async () => proxy.channels === 1,
    () => `1 channel, not ${proxy.channels}`,
  )
  expect(proxy.connections).toBe(1)
})

test('A connection that breaks is reported as unavailable, and the next message opens another one', async () => {
  const queue = await broker.queue()
  const proxy = await broker.frameProxy()
  const subject = publishing({ url: broker.urlAt(proxy.address) })
  await subject.publish('', queue, body, { messageId: 'a' })
  proxy.hold()
  const lost = subject.publish('', queue, body, { messageId: 'b' })
  await until(
    async () => proxy.held > 0,
    () => 'an answer is held',
  )
  proxy.cut()
  await expect(lost).rejects.toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE' })
  proxy.release()
  await subject.publish('', queue, body, { messageId: 'c' })
  expect(proxy.connections).toBe(2)
})

test('A message in flight at close is reported as unavailable', async () => {
  const queue = await broker.queue()
  const proxy = await broker.frameProxy()
  const subject = publishing({ url: broker.urlAt(proxy.address) })
  await subject.publish('', queue, body, { messageId: 'a' })
  proxy.hold()
  const lost = subject.publish('', queue, body, { messageId: 'b' })
  await until(
    async () => proxy.held > 0,
    () => 'an answer is held',
  )
  subject.close()
  await expect(lost).rejects.toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE' })
  await expect(subject.publish('', queue, body, {})).rejects.toMatchObject({
    code: 'TXBOX_BROKER_UNAVAILABLE',
  })
})

test('Equal messages that overlap are each counted once', async () => {
  const queue = await broker.queue()
  const subject = publishing()
  await Promise.all(Array.from({ length: 10 }, () => subject.publish('', queue, body, { messageId: 'same' })))
  expect(await broker.ids(queue)).toHaveLength(10)
})
