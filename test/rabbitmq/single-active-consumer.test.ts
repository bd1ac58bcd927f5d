import { setImmediate as turn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const broker = useBroker()
const MESSAGES = 200
const ids = Array.from({ length: MESSAGES }, (_, n) => `m${n}`)

async function fill(queue: string): Promise<void> {
  const channel = await broker.confirmChannel()
  const headers = { 'txbox-key': 'k' }
  for (const messageId of ids)
    channel.sendToQueue(queue, Buffer.from('{}'), { messageId, headers, persistent: true })
  await channel.waitForConfirms()
  await channel.close()
}

for (const type of ['quorum', 'classic'] as const) {
  for (const deliveryLimit of type === 'quorum' ? [undefined, 1000] : [undefined]) {
    const limit = deliveryLimit === undefined ? 'without' : 'with'
    test(`C22 C23 a consumer that stops hands the role of the single active consumer over in order: ${type} queue ${limit} a delivery limit`, async () => {
      const queue = broker.name('queue')
      broker.deleteAfterwards(queue)
      const handled: string[] = []
      for (let n = 0; n < 4; n += 1) {
        const consumer = createConsumer({
          source: rabbitmqSource({
            ...{ url: broker.url, queue, keepsRejected: true },
            declare: { type, singleActiveConsumer: true, deliveryLimit },
          }),
          name: 'orders',
          prefetch: 30,
          logger: false,
          handler: async ({ id }) => {
            handled.push(id)
            // The deliveries behind this one have not begun, and the next consumer waits for the role.
            if (n < 3 && handled.length === (n + 1) * 10) void consumer.stop()
            await turn()
          },
        })
        onTestFinished(() => consumer.stop())
        await consumer.start()
      }
      await fill(queue)
      await until(
        async () => handled.length >= MESSAGES,
        () => `${handled.length} of ${MESSAGES} messages are handled`,
      )
      expect(handled).toEqual(ids)
    })
  }

  test(`C22 C23 a consumer that is stopped and started again continues in order: ${type} queue`, async () => {
    const queue = await broker.queue({ type })
    await fill(queue)
    const handled: string[] = []
    for (let n = 1; handled.length < MESSAGES; n += 1) {
      const consumer = createConsumer({
        source: rabbitmqSource({ url: broker.url, queue, keepsRejected: true }),
        name: 'orders',
        prefetch: 30,
        logger: false,
        handler: async ({ id }) => {
          handled.push(id)
          if (handled.length === n * 50) void consumer.stop()
          await turn()
        },
      })
      onTestFinished(() => consumer.stop())
      await consumer.start()
      await consumer.stopped
    }
    expect(handled).toEqual(ids)
  })
}
