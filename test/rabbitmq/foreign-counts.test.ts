import amqp from 'amqplib'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { createConsumer, type Delivery } from '@txbox/consumer'
import { rabbitmqSource, type RabbitmqSourceOptions } from '@txbox/rabbitmq'
import { listen, type ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { until } from '../support/worlds/until.ts'
import { useBroker } from './broker-under-test.ts'

const broker = useBroker()
const NEVER = new AbortController().signal
const LEFTOVER = { 'x-delivery-count': 25, 'x-acquired-count': 25 }

async function send(queue: string, messageId: string, headers: object = {}): Promise<void> {
  const channel = await broker.confirmChannel()
  channel.sendToQueue(queue, Buffer.from('{}'), { messageId, headers, persistent: true })
  await channel.waitForConfirms()
  await channel.close()
}

let between: UnreliableNetwork
beforeAll(async () => {
  between = await UnreliableNetwork.to(broker.address)
})
afterAll(() => between.close())

/** Receives one message, and loses the connection as a process that dies does. */
async function crash(
  queue: string,
  options: Partial<RabbitmqSourceOptions> = {},
): Promise<Pick<Delivery, 'deliveries' | 'isCounted'>> {
  const source = rabbitmqSource({ url: broker.urlAt(between.address), queue, ...options })
  const lost = Promise.withResolvers<unknown>()
  const opened = await source.open({ prefetch: 1, failed: lost.resolve })
  const [delivery] = await opened.receive(1, { signal: NEVER })
  between.cut()
  await lost.promise
  return { deliveries: delivery!.deliveries, isCounted: delivery!.isCounted }
}

/** The deliveries of the message while each process that receives the message dies. */
async function crashes(
  queue: string,
  times: number,
  options: Partial<RabbitmqSourceOptions> = {},
): Promise<number[]> {
  const counts: number[] = []
  for (let n = 0; n < times; n += 1) counts.push((await crash(queue, options)).deliveries)
  return counts
}

/** Delivers the message once by a bare client, which dies: the process of the test sees nothing. */
async function crashUnseen(queue: string): Promise<void> {
  const model = await amqp.connect(broker.urlAt(between.address))
  const closed = new Promise((resolve) => void model.once('close', resolve))
  model.on('error', () => undefined)
  const channel = await model.createChannel()
  await channel.prefetch(1)
  await new Promise((resolve) => void channel.consume(queue, resolve))
  between.cut()
  await closed
}

test('C10 C25 a quorum queue that another program has declared counts: a message that ends each process is a dead letter', async () => {
  const queue = await broker.queue({ type: 'quorum' })
  await send(queue, 'killer')
  expect(await crash(queue)).toEqual({ deliveries: 1, isCounted: undefined })
  expect(await crash(queue)).toEqual({ deliveries: 2, isCounted: true })
  expect(await crash(queue)).toEqual({ deliveries: 3, isCounted: true })
  const events: ConsumerUnderTest['events'] = []
  const handled: string[] = []
  const consumer = createConsumer({
    source: rabbitmqSource({ url: broker.url, queue, keepsRejected: true }),
    name: 'orders',
    logger: false,
    retry: { attempts: 3, delayMs: () => 1 },
    handler: ({ id }) => void handled.push(id),
  })
  listen(consumer, events)
  onTestFinished(() => consumer.stop())
  await consumer.start()
  await send(queue, 'good')
  await until(
    async () => events.length === 2,
    () => JSON.stringify(events),
  )
  expect(handled).toEqual(['good'])
  expect(events.map(({ event, id }) => `${event} ${id}`).toSorted()).toEqual([
    'dead-lettered killer',
    'handled good',
  ])
})

test('C25 countsDeliveries: false turns the count of a quorum queue off', async () => {
  const queue = await broker.queue({ type: 'quorum' })
  await send(queue, 'a')
  expect(await crashes(queue, 4, { countsDeliveries: false })).toEqual([1, 2, 2, 2])
  expect(rabbitmqSource({ url: broker.url, queue, countsDeliveries: false }).traits.countsDeliveries).toBe(
    false,
  )
})

test('C10 a count that was left over on a classic queue is not believed after its first delivery was seen', async () => {
  const queue = await broker.queue({ type: 'classic' })
  await send(queue, 'a', { 'x-delivery-count': 25 })
  expect(await crashes(queue, 4)).toEqual([1, 2, 2, 2])
  expect((await crash(queue)).isCounted).toBe(false)
})

test('C10 a count that was left over on a classic queue is not believed after a redelivery without it was seen', async () => {
  const queue = await broker.queue({ type: 'classic' })
  await send(queue, 'a')
  await send(queue, 'b', { 'x-delivery-count': 25 })
  await crashUnseen(queue)
  const opened = await rabbitmqSource({ url: broker.url, queue, keepsRejected: true }).open({
    prefetch: 1,
    failed: () => undefined,
  })
  onTestFinished(() => opened.close())
  const [a] = await opened.receive(1, { signal: NEVER })
  expect(a).toMatchObject({ message: { id: 'a' }, deliveries: 2, isCounted: false })
  await a!.accept()
  const [b] = await opened.receive(1, { signal: NEVER })
  expect(b).toMatchObject({ message: { id: 'b' }, deliveries: 1, isCounted: false })
  await b!.retry({ delayMs: 0, error: undefined, counted: true })
  const [again] = await opened.receive(1, { signal: NEVER })
  expect(again).toMatchObject({ message: { id: 'b' }, deliveries: 2, isCounted: false })
})

test('C10 on a classic queue that we have declared, a count that was left over is never believed', async () => {
  const queue = broker.name('queue')
  broker.deleteAfterwards(queue)
  const declare = { type: 'classic' } as const
  await (
    await rabbitmqSource({ url: broker.url, queue, declare }).open({ prefetch: 1, failed: () => undefined })
  ).close()
  await send(queue, 'a', LEFTOVER)
  await crashUnseen(queue)
  expect(await crashes(queue, 2, { declare })).toEqual([2, 2])
})

test('C10 a count that was left over on a quorum queue is replaced by its own', async () => {
  const queue = await broker.queue({ type: 'quorum' })
  await send(queue, 'a', LEFTOVER)
  await crashUnseen(queue)
  expect(await crashes(queue, 3)).toEqual([2, 3, 4])
})

test('C10 from 4.3, a count is believed up to the number of times that the queue has handed the message out', async () => {
  if (broker.version < 4.3) return
  const classic = await broker.queue({ type: 'classic' })
  await send(classic, 'a', { 'x-delivery-count': 25 })
  await crashUnseen(classic)
  expect(await crashes(classic, 2)).toEqual([2, 2])
  const quorum = await broker.queue({ type: 'quorum' })
  await send(quorum, 'a', LEFTOVER)
  // The first delivery of a quorum queue, too, has the headers that were left over.
  expect(await crashes(quorum, 4)).toEqual([1, 2, 3, 4])
})

for (const how of ['declared by us', 'declared by another program'] as const) {
  test(`C10 a dead letter of a quorum queue has all its attempts in the quorum queue of dead letters, ${how}`, async () => {
    const graveyard = broker.name('queue')
    broker.deleteAfterwards(graveyard)
    const declare = { type: 'quorum' } as const
    await (
      await rabbitmqSource({ url: broker.url, queue: graveyard, declare }).open({
        prefetch: 1,
        failed: () => undefined,
      })
    ).close()
    const queue = await broker.queue({
      type: 'quorum',
      arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': graveyard },
    })
    await send(queue, 'a')
    for (let n = 0; n < 4; n += 1) await crashUnseen(queue)
    const opened = await rabbitmqSource({ url: broker.url, queue, keepsRejected: true }).open({
      prefetch: 1,
      failed: () => undefined,
    })
    const [delivery] = await opened.receive(1, { signal: NEVER })
    expect(delivery!.deliveries).toBe(5)
    await delivery!.reject({ error: undefined })
    await opened.close()
    const options = how === 'declared by us' ? { declare } : {}
    const counts = await crashes(graveyard, 4, options)
    // From 4.3, a dead letter arrives as a message that was delivered before.
    expect(counts).toEqual(broker.version < 4.3 ? [1, 2, 3, 4] : [2, 2, 3, 4])
  })
}
