import { expect, test } from 'vitest'
import type { OutboxMessage } from '@txbox/rabbitmq'
import { until } from '../support/worlds/until.ts'
import { OFFENCE, outboxMessage, publish, summary, useBroker } from './broker-under-test.ts'

const broker = useBroker()

function keyed(topic: string, count: number, keys: number): OutboxMessage[] {
  return Array.from({ length: count }, (_, n) => outboxMessage({ topic, key: `key ${n % keys}` }))
}

async function held(queue: string) {
  const proxy = await broker.frameProxy()
  const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 1000 })
  await publish(publisher, [outboxMessage({ topic: queue })])
  await broker.take(queue)
  return { proxy, publisher }
}

test('O3 one message of each key is in flight, and all messages without a key', async () => {
  const queue = await broker.queue({ type: 'quorum' })
  const { proxy, publisher } = await held(queue)
  proxy.hold()
  const messages = [
    ...keyed(queue, 30, 3),
    ...Array.from({ length: 5 }, () => outboxMessage({ topic: queue })),
  ]
  const results = publish(publisher, messages)
  const inQueue = async (): Promise<number> => (await broker.channel.checkQueue(queue)).messageCount
  await until(
    async () => (await inQueue()) === 8,
    async () => `8 messages in the queue; there are ${await inQueue()}`,
  )
  proxy.release()
  expect(summary(await results)).toEqual(messages.map(() => 'accepted'))
  const there = await broker.ids(queue)
  expect(there.length).toBe(35)
  for (let key = 0; key < 3; key += 1) {
    const ids = messages.filter((message) => message.key === `key ${key}`).map(({ id }) => id)
    expect(there.filter((id) => ids.includes(id))).toEqual(ids)
  }
})

test('O3 O4 when a full queue is emptied meanwhile, returned messages are published again, and first copies keep their order', async () => {
  const queue = await broker.queue({ arguments: { 'x-max-length': 20, 'x-overflow': 'reject-publish' } })
  const publisher = broker.publisher({ exchange: '' })
  const there: string[] = []
  let emptying = true
  const emptied = (async () => {
    while (emptying) there.push(...(await broker.ids(queue)))
  })()
  const messages = keyed(queue, 2000, 200)
  let left = messages
  let refusals = 0
  while (left.length > 0) {
    const results = await publish(publisher, left)
    refusals += results.filter(({ status }) => status === 'rejected').length
    left = left.filter((_, n) => results[n]?.status !== 'accepted')
  }
  emptying = false
  await emptied
  there.push(...(await broker.ids(queue)))
  expect(refusals).toBeGreaterThan(0)
  const first = [...new Set(there)]
  expect(first.length).toBe(messages.length)
  for (let key = 0; key < 200; key += 1) {
    const ids = new Set(messages.filter((message) => message.key === `key ${key}`).map(({ id }) => id))
    expect(first.filter((id) => ids.has(id))).toEqual([...ids])
  }
})

test('O4 after a message on which the broker closes the channel, the other messages of its key are skipped, however it was sent', async () => {
  const queue = await broker.queue()
  const messages = keyed(queue, 12, 3)
  messages[4] = outboxMessage({ topic: queue, key: 'key 1', ...OFFENCE })
  const publisher = broker.publisherAt(await broker.offendingProxy())
  const results = summary(await publish(publisher, messages))
  expect(results[4]).toBe('rejected for good')
  expect(results).toEqual(
    messages.map(({ key }, n) => {
      if (key !== 'key 1' || n < 4) return 'accepted'
      return n === 4 ? 'rejected for good' : 'skipped'
    }),
  )
  const there = [...new Set(await broker.ids(queue))]
  for (const key of ['key 0', 'key 2']) {
    const ids = messages.filter((message) => message.key === key).map(({ id }) => id)
    expect(there.filter((id) => ids.includes(id))).toEqual(ids)
  }
})

test('O4 after a message that is not confirmed although others are, the other messages of its key are skipped and not sent', async () => {
  const queue = await broker.queue()
  const { proxy, publisher } = await held(queue)
  const messages = keyed(queue, 6, 2)
  // The first message of the connection was confirmed before.
  proxy.hideConfirm(2)
  const results = summary(await publish(publisher, messages))
  expect(results).toEqual(['rejected for now', 'accepted', 'skipped', 'accepted', 'skipped', 'accepted'])
  expect((await broker.ids(queue)).length).toBe(4)
})
