import type { Channel } from 'amqplib'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const broker = useBroker()
const [MESSAGES, KEYS] = [600, 20]

test('C22 one request for an answer to acknowledgements is in flight at a time, and all messages of a key are handled in order', async () => {
  const queue = await broker.queue({ type: 'quorum' })
  for (let n = 0; n < MESSAGES; n += 1) {
    const headers = { 'txbox-key': `k${n % KEYS}` }
    broker.channel.sendToQueue(queue, Buffer.from('{}'), { messageId: String(n), headers, persistent: true })
  }
  let [inFlight, most, requests] = [0, 0, 0]
  // All channels of the client have this function.
  let client: Channel = broker.channel
  while (!Object.hasOwn(client, 'prefetch')) client = Object.getPrototypeOf(client) as Channel
  // oxlint-disable-next-line typescript/unbound-method -- called with the channel
  const { prefetch } = client
  const spy = vi.spyOn(client, 'prefetch').mockImplementation(async function (this: Channel, count, global) {
    requests += 1
    inFlight += 1
    most = Math.max(most, inFlight)
    try {
      return await prefetch.call(this, count, global)
    } finally {
      inFlight -= 1
    }
  })
  onTestFinished(() => spy.mockRestore())
  const handled = new Map<number, number[]>()
  const consumer = createConsumer({
    source: rabbitmqSource({ url: broker.url, queue, keepsRejected: true }),
    name: 'orders',
    prefetch: 100,
    concurrency: 100,
    logger: false,
    handler: async ({ id }) => {
      const key = Number(id) % KEYS
      handled.set(key, [...(handled.get(key) ?? []), Number(id)])
      await turn()
    },
  })
  onTestFinished(() => consumer.stop())
  await consumer.start()
  const count = (): number => [...handled.values()].reduce((sum, { length }) => sum + length, 0)
  await until(
    async () => count() >= MESSAGES && consumer.figures.inHand === 0,
    () => `${count()} of ${MESSAGES} messages are handled`,
  )
  expect(most).toBe(1)
  expect(requests).toBeLessThan(MESSAGES)
  for (const [key, numbers] of handled)
    expect([key, numbers]).toEqual([key, numbers.toSorted((a, b) => a - b)])
  await consumer.stop()
  expect(await broker.ids(queue)).toEqual([])
})
