import { expect, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { listen, type ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const broker = useBroker()
const NEVER = new AbortController().signal

/** What a shovel does with dead letters: each goes back with its headers. */
async function redrive(from: string, to: string): Promise<void> {
  const channel = await broker.confirmChannel()
  for (const { content, properties } of await broker.take(from)) channel.sendToQueue(to, content, properties)
  await channel.waitForConfirms()
  await channel.close()
}

for (const type of ['quorum', 'classic'] as const) {
  test(`C10 a dead letter of a quorum queue that is sent again to a ${type} queue has all its attempts`, async () => {
    const graveyard = await broker.queue({ type: 'quorum' })
    const source = await broker.queue({
      type: 'quorum',
      arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': graveyard },
    })
    const queue = broker.name('queue')
    broker.deleteAfterwards(queue)
    const first = await rabbitmqSource({ url: broker.url, queue: source, countsDeliveries: true }).open({
      prefetch: 1,
      failed: () => undefined,
    })
    broker.channel.sendToQueue(source, Buffer.from('{}'), { messageId: 'a', persistent: true })
    const counts: number[] = []
    for (let n = 0; n < 5; n += 1) {
      const [delivery] = await first.receive(1, { signal: NEVER })
      counts.push(delivery!.deliveries)
      if (n === 4) await delivery!.reject({ error: undefined })
      else await delivery!.retry({ delayMs: 0, error: undefined, counted: true })
    }
    expect(counts).toEqual([1, 2, 3, 4, 5])
    await first.close()
    await until(
      async () => (await broker.channel.checkQueue(graveyard)).messageCount === 1,
      () => 'a is a dead letter',
    )
    const events: ConsumerUnderTest['events'] = []
    const deliveries: number[] = []
    const consumer = createConsumer({
      source: rabbitmqSource({ url: broker.url, queue, declare: { type }, keepsRejected: true }),
      name: 'orders',
      logger: false,
      holdMs: 0,
      retry: { attempts: 3, delayMs: () => 1 },
      handler: (_message, context) => {
        deliveries.push(context.deliveries)
        if (deliveries.length === 1) throw new Error('failed')
      },
    })
    listen(consumer, events)
    onTestFinished(() => consumer.stop())
    await consumer.start()
    await redrive(graveyard, queue)
    await until(
      async () => events.some(({ event }) => event === 'handled' || event === 'dead-lettered'),
      () => 'a is handled',
    )
    expect(events.map(({ event }) => event)).toEqual(['retried', 'handled'])
    expect(deliveries).toEqual([1, 2])
  })
}

test('C10 a count in a message from another queue is no count of a queue whose type is not known', async () => {
  const queue = await broker.queue()
  const open = (): ReturnType<ReturnType<typeof rabbitmqSource>['open']> =>
    rabbitmqSource({ url: broker.url, queue }).open({ prefetch: 1, failed: () => undefined })
  const headers = { 'x-delivery-count': 25 }
  broker.channel.sendToQueue(queue, Buffer.from('{}'), { messageId: 'a', headers })
  const counts: number[] = []
  for (let n = 0; n < 3; n += 1) {
    const source = await open()
    const [delivery] = await source.receive(1, { signal: NEVER })
    counts.push(delivery!.deliveries)
    // Without an answer the broker delivers the message again.
    await source.close()
  }
  expect(counts).toEqual([1, 2, 2])
})
