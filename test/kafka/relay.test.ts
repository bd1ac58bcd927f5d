import { Consumer } from '@platformatic/kafka'
import { afterAll, expect, inject, test } from 'vitest'
import { createInbox, isSettled } from '@txbox/inbox'
import { fromKafka } from '@txbox/kafka'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { cuttingPublisher } from '../support/subjects/cutting-publisher.ts'
import { RelayUnderTest, publishAll } from '../support/subjects/relay-under-test.ts'
import { KafkaUnderTest, idsOf } from './kafka-under-test.ts'
import { allNumbers, numbersByKey, steps } from '../support/subjects/steps.ts'
import { stepsIn } from './steps.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target))
const kafka = new KafkaUnderTest(inject('servers')['kafka']!)
afterAll(() => kafka.close())

test('O1 O2 O3 committed messages arrive in the order of their keys while connections break', async () => {
  const between = await kafka.network()
  const topic = await kafka.topic()
  const log = await kafka.log(topic)
  const ids = await publishAll(root, steps(topic, 10, 40))
  const { host, port } = between.address
  const publisher = kafka.publisher({ brokers: [`${host}:${port}`] })
  const breaking = cuttingPublisher(publisher, () => between.cut())
  const subject = await RelayUnderTest.started(root, breaking, { batchSize: 20 })
  await outbox.settled()
  expect(subject.heard('parked')).toEqual([])
  expect(subject.heard('unavailable').length).toBeGreaterThan(0)
  const records = await log.take()
  expect(new Set(idsOf(records))).toEqual(new Set(ids))
  expect(numbersByKey(stepsIn(records))).toEqual(allNumbers(10, 40))
})

test('I1 a message that a consumer gets from Kafka twice has one effect', async () => {
  const topic = await kafka.topic({ partitions: 1 })
  const [id] = await publishAll(root, [
    { topic, key: 'a', type: 'order.paid', headers: { tenant: 'north' }, payload: { name: 'paid' } },
  ])
  const publisher = kafka.publisher()
  await RelayUnderTest.started(root, publisher)
  await outbox.settled()
  const consumer = new Consumer({
    groupId: kafka.name('group'),
    clientId: 'txbox-test',
    bootstrapBrokers: [kafka.address],
  })
  const inbox = createInbox({ database: root.database, consumer: 'billing' })
  const stream = await consumer.consume({
    topics: [topic],
    mode: 'committed',
    fallbackMode: 'earliest',
    autocommit: false,
  })
  for await (const record of stream) {
    const message = fromKafka<{ name: string }>(record)
    expect(message).toMatchObject({ id, type: 'order.paid', headers: { tenant: 'north' } })
    for (let delivery = 0; delivery < 2; delivery += 1) {
      const outcome = await inbox.run(message, (tx, { payload }) => target.effect(tx, payload.name))
      expect(isSettled(outcome)).toBe(true)
    }
    break
  }
  await consumer.close(true)
  expect(await target.sql('select name from effects')).toEqual([{ name: 'paid' }])
})

test('O4 a missing topic parks its messages with the reason, and their keys; other keys continue', async () => {
  const [missing, topic] = [kafka.name('missing'), await kafka.topic()]
  const log = await kafka.log(topic)
  const [lost, , ...rest] = await publishAll(root, [
    { topic: missing, key: 'a', payload: { key: 'a', n: 1 } },
    { topic, key: 'a', payload: { key: 'a', n: 2 } },
    { topic, key: 'b', payload: { key: 'b', n: 1 } },
    { topic, payload: { key: 'none', n: 1 } },
  ])
  const subject = await RelayUnderTest.started(root, kafka.publisher())
  await subject.hears('parked')
  const [parked] = subject.heard('parked')
  expect(parked).toMatchObject({ id: lost, topic: missing, attempt: 1 })
  expect(String(parked?.error)).toContain(`topic '${missing}' (3 UNKNOWN_TOPIC_OR_PARTITION)`)
  await kafka.admin.createTopics({ topics: [missing], partitions: 1, replicas: 1 })
  const before = await log.take()
  expect(idsOf(before).toSorted()).toEqual(rest.toSorted())
  await outbox.settled()
  expect(numbersByKey(stepsIn(await log.take()))).toEqual({ a: [2] })
})

test('O6 an unavailable broker costs no attempts, and is found again', async () => {
  const between = await kafka.network()
  const topic = await kafka.topic()
  const log = await kafka.log(topic)
  const { host, port } = between.address
  await between.down()
  const ids = await publishAll(root, steps(topic, 3, 3))
  const subject = await RelayUnderTest.started(root, kafka.publisher({ brokers: [`${host}:${port}`] }), {
    retry: { attempts: 1, delayMs: () => 1 },
  })
  await subject.hears('unavailable', 2)
  expect(String(subject.heard('unavailable')[0]?.error)).toContain('ECONNREFUSED')
  await between.up()
  await outbox.settled()
  expect(subject.heard('parked')).toEqual([])
  expect(idsOf(await log.take()).toSorted()).toEqual(ids.toSorted())
})
