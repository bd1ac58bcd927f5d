import { expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { listen, type ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { until } from '../support/worlds/until.ts'
import { retryQueuesOf, useBroker } from './broker-under-test.ts'

const broker = useBroker()

async function fill(queue: string, ids: readonly string[], isKeyed: boolean): Promise<void> {
  const channel = await broker.confirmChannel()
  for (const messageId of ids) {
    const headers = isKeyed ? { 'txbox-key': `key of ${messageId}` } : {}
    channel.sendToQueue(queue, Buffer.from('{}'), { messageId, headers, persistent: true })
  }
  await channel.waitForConfirms()
  await channel.close()
}

const named = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, n) => `${prefix}${n}`)

for (const type of ['quorum', 'classic'] as const) {
  for (const isKeyed of [false, true]) {
    const what = isKeyed ? 'each with its own key' : 'without keys'
    test(`C11 C18 1,000 messages that always fail, ${what}, do not hold up 500 good ones behind them: ${type} queue`, async () => {
      const queue = await broker.queue({ type })
      for (const one of retryQueuesOf(queue)) broker.deleteAfterwards(one)
      await fill(queue, [...named('bad', 1000), ...named('good', 500)], isKeyed)
      const events: ConsumerUnderTest['events'] = []
      const consumer = createConsumer({
        source: rabbitmqSource({ url: broker.url, queue, keepsRejected: true }),
        name: 'orders',
        logger: false,
        handler: ({ id }) => {
          if (id.startsWith('bad')) throw new Error('always')
        },
      })
      listen(consumer, events)
      onTestFinished(() => consumer.stop({ timeoutMs: 0 }))
      await consumer.start()
      const good = (): number => events.filter(({ event }) => event === 'handled').length
      await until(
        async () => good() === 500,
        () => `500 good messages are handled: ${good()}`,
      )
      expect(events.filter(({ event }) => event === 'error' || event === 'unavailable')).toEqual([])
    })
  }
}
