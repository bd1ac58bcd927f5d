import type { GetMessage } from 'amqplib'
import { expect, onTestFinished, test } from 'vitest'
import { createInbox, isSettled } from '@txbox/inbox'
import { fromRabbitmq } from '@txbox/rabbitmq'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { cuttingPublisher } from '../support/subjects/cutting-publisher.ts'
import { RelayUnderTest, publishAll } from '../support/subjects/relay-under-test.ts'
import { SenderUnderTest } from '../support/subjects/sender-under-test.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { useBroker } from './broker-under-test.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const broker = useBroker()
const root = useRoot(target, mainKind(target))

interface Step {
  key: string
  n: number
}

/** Steps of several keys in turn, each key numbered from 1. */
function steps(topic: string, keys: number, each: number) {
  return Array.from({ length: keys * each }, (_, index) => {
    const key = `key ${index % keys}`
    return { topic, key, payload: { key, n: Math.floor(index / keys) + 1 } satisfies Step }
  })
}

/** The numbers of a key as a consumer that drops duplicates sees them. */
function numbersOf(key: string, deliveries: readonly GetMessage[]): number[] {
  const seen = deliveries
    .map((delivery) => fromRabbitmq<Step>(delivery))
    .filter(({ payload }) => payload.key === key)
  return [...new Map(seen.map(({ id, payload }) => [id, payload.n])).values()]
}

test('O1 O2 O3 committed messages arrive in the order of their keys while the connection breaks, and have one effect each', async () => {
  const between = await UnreliableNetwork.to(broker.address)
  onTestFinished(() => between.close())
  const queue = await broker.queue({ type: 'quorum' })
  const ids = await publishAll(root, steps(queue, 10, 40))
  const publisher = broker.publisher({ url: broker.urlAt(between.address), exchange: '' })
  const breaking = cuttingPublisher(publisher, () => between.cut())
  const subject = await RelayUnderTest.started(root, breaking, { batchSize: 20 })
  await outbox.settled()
  expect(subject.heard('parked')).toEqual([])
  expect(subject.heard('unavailable').length).toBeGreaterThan(0)

  const deliveries = await broker.take(queue)
  expect(new Set(deliveries.map(({ properties }) => String(properties.messageId)))).toEqual(new Set(ids))
  const ascending = Array.from({ length: 40 }, (_, n) => n + 1)
  for (let key = 0; key < 10; key += 1) expect(numbersOf(`key ${key}`, deliveries)).toEqual(ascending)

  const inbox = createInbox({ database: root.database, consumer: 'steps' })
  for (const delivery of [...deliveries, ...deliveries.slice(0, 20)]) {
    const outcome = await inbox.run(fromRabbitmq<Step>(delivery), (tx, { payload }) =>
      target.effect(tx, `${payload.key}, ${payload.n}`),
    )
    expect(isSettled(outcome)).toBe(true)
  }
  const [effects] = await target.sql(
    'select count(*)::int as all, count(distinct name)::int as different from effects',
  )
  expect(effects).toEqual({ all: ids.length, different: ids.length })
})

test('F2 F3 a message that is sent twice arrives once, with its deduplication id', async () => {
  const queue = await broker.queue()
  const sender = new SenderUnderTest(target, root)
  const message = { topic: queue, deduplicationId: 'order-7/paid', payload: 'paid' }
  const { id } = await sender.send(message)
  await sender.send(message)
  await RelayUnderTest.started(root, broker.publisher({ exchange: '' }))
  await outbox.settled()
  const received = (await broker.take(queue)).map((delivery) => fromRabbitmq(delivery))
  expect(received).toMatchObject([{ id, payload: 'paid', headers: { 'deduplication-id': 'order-7/paid' } }])
})

test('O4 O11 a message without a queue is parked with the reason; its key waits, other keys continue; later the key continues in order', async () => {
  const exchange = await broker.exchange()
  const queue = await broker.queue()
  await broker.channel.bindQueue(queue, exchange, 'orders.paid')
  const [lost, ...rest] = await publishAll(root, [
    { topic: 'orders.unknown', key: 'a', payload: { key: 'a', n: 1 } },
    { topic: 'orders.paid', key: 'a', payload: { key: 'a', n: 2 } },
    { topic: 'orders.paid', key: 'b', payload: { key: 'b', n: 1 } },
    { topic: 'orders.paid', payload: { key: 'none', n: 1 } },
  ])
  const subject = await RelayUnderTest.started(root, broker.publisher({ exchange }))
  await subject.hears('parked')
  const [parked] = subject.heard('parked')
  expect(parked).toMatchObject({ id: lost, topic: 'orders.unknown', attempt: 1 })
  expect(String(parked?.error)).toContain(
    `no queue is bound to exchange '${exchange}' for routing key 'orders.unknown'`,
  )
  await subject.hears('published')
  await broker.channel.bindQueue(queue, exchange, 'orders.#')
  await outbox.settled()
  const deliveries = await broker.take(queue)
  expect(deliveries.length).toBe(rest.length + 1)
  expect(numbersOf('a', deliveries)).toEqual([1, 2])
})

test('O6 an unavailable broker costs no attempts, and is found again', async () => {
  const between = await UnreliableNetwork.to(broker.address)
  onTestFinished(() => between.close())
  const queue = await broker.queue()
  await between.down()
  const ids = await publishAll(root, steps(queue, 3, 3))
  const publisher = broker.publisher({ url: broker.urlAt(between.address), exchange: '' })
  const subject = await RelayUnderTest.started(root, publisher)
  await subject.hears('unavailable', 2)
  expect(String(subject.heard('unavailable')[0]?.error)).toContain('ECONNREFUSED')
  await between.up()
  await outbox.settled()
  expect(subject.heard('parked')).toEqual([])
  expect((await broker.ids(queue)).toSorted()).toEqual(ids.toSorted())
})
