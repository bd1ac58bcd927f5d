import { expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { listen, type ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const broker = useBroker()

test('C23 stop keeps its time limit while the broker is silent: the unanswered and the unhandled delivery are lost, and delivered again', async () => {
  const between = await UnreliableNetwork.to(broker.address)
  onTestFinished(() => between.close())
  const queue = await broker.queue({ type: 'quorum' })
  const channel = await broker.confirmChannel()
  for (const messageId of ['a', 'b']) channel.sendToQueue(queue, Buffer.from('{}'), { messageId })
  await channel.waitForConfirms()

  const events: ConsumerUnderTest['events'] = []
  const consumer = createConsumer({
    source: rabbitmqSource({ url: broker.urlAt(between.address), queue, keepsRejected: true }),
    name: 'orders',
    concurrency: 1,
    logger: false,
    handler: () => between.freeze(),
  })
  listen(consumer, events)
  onTestFinished(() => consumer.stop({ timeoutMs: 0 }))
  await consumer.start()
  await until(
    async () => events.some(({ event }) => event === 'handled') || consumer.figures.inHand === 2,
    () => 'both messages are received',
  )
  const begunAt = performance.now()
  await consumer.stop({ timeoutMs: 1000 })
  expect(performance.now() - begunAt).toBeLessThan(1200)
  expect(consumer.figures.inHand).toBe(0)
  const lost = events.flatMap(({ event, id }) => (event === 'lost' ? [id] : []))
  expect(new Set(lost)).toEqual(new Set(['a', 'b']))
  expect(lost.length).toBe(2)
  expect(events.filter(({ event }) => event === 'error')).toEqual([])
  between.cut()
  await until(
    async () => (await broker.channel.checkQueue(queue)).messageCount === 2,
    () => 'the broker has taken back both messages',
  )
})
