import { expect, test } from 'vitest'
import { createInbox, isSettled } from '@txbox/inbox'
import { fromSqs } from '@txbox/sqs'
import { SQSClient } from '@aws-sdk/client-sqs'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { cuttingPublisher } from '../support/subjects/cutting-publisher.ts'
import { RelayUnderTest, publishAll } from '../support/subjects/relay-under-test.ts'
import { clientSettings, endpointAt, useSqs } from './sqs-under-test.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target))
const sqs = useSqs()

const KEYS = 10
const EACH = 20

test('O1 O2 O3 committed messages arrive once and in the order of their keys while connections break', async () => {
  const queue = await sqs.current.queue({ fifo: true })
  const between = await sqs.current.network()
  const messages = Array.from({ length: KEYS * EACH }, (_, n) => ({
    topic: queue,
    key: `key ${n % KEYS}`,
    payload: { n: Math.floor(n / KEYS) },
  }))
  const ids = await publishAll(root, messages)
  const client = new SQSClient(clientSettings(endpointAt(between)))
  const publisher = sqs.current.publisher({ client })
  const breaking = cuttingPublisher(publisher, () => between.cut())
  const subject = await RelayUnderTest.started(root, breaking, { batchSize: 20 })
  await outbox.settled()
  client.destroy()
  expect(subject.heard('parked')).toEqual([])
  expect(subject.heard('unavailable').length).toBeGreaterThan(0)
  const received = await sqs.current.take(queue)
  const read = received.map((message) => fromSqs<{ n: number }>(message))
  // SQS recognizes what the relay has sent again.
  expect(read.map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
  for (let key = 0; key < KEYS; key += 1) {
    const own = read.filter((_, n) => received[n]!.Attributes?.MessageGroupId !== undefined)
    const numbers = own.filter(({ id }) => ids.indexOf(id) % KEYS === key).map(({ payload }) => payload.n)
    expect(numbers).toEqual(Array.from({ length: EACH }, (_, n) => n))
  }
})

test('I1 a message that a consumer gets from SQS twice has one effect', async () => {
  const queue = await sqs.current.queue()
  const [id] = await publishAll(root, [
    { topic: queue, key: 'a', type: 'order.paid', headers: { tenant: 'north' }, payload: { name: 'paid' } },
  ])
  await RelayUnderTest.started(root, sqs.current.publisher())
  await outbox.settled()
  const inbox = createInbox({ database: root.database, consumer: 'billing' })
  const [received] = await sqs.current.take(queue)
  const message = fromSqs<{ name: string }>(received!)
  expect(message).toMatchObject({ id, type: 'order.paid', headers: { tenant: 'north' } })
  for (let delivery = 0; delivery < 2; delivery += 1) {
    const outcome = await inbox.run(message, (tx, { payload }) => target.effect(tx, payload.name))
    expect(isSettled(outcome)).toBe(true)
  }
  expect(await target.sql('select name from effects')).toEqual([{ name: 'paid' }])
})

test('O4 a missing queue parks its messages with the reason, and their keys; other keys continue', async () => {
  const [missing, queue] = [sqs.current.name('missing'), await sqs.current.queue()]
  const [lost, , other] = await publishAll(root, [
    { topic: missing, key: 'a', payload: { n: 1 } },
    { topic: queue, key: 'a', payload: { n: 2 } },
    { topic: queue, key: 'b', payload: { n: 1 } },
  ])
  const subject = await RelayUnderTest.started(root, sqs.current.publisher())
  await subject.hears('parked')
  expect(subject.heard('parked')[0]).toMatchObject({ id: lost, topic: missing, attempt: 1 })
  expect(String(subject.heard('parked')[0]?.error)).toContain(missing)
  const received = await sqs.current.take(queue)
  expect(received.map((each) => fromSqs(each).id)).toEqual([other])
})

test('O6 SQS that is away costs no attempts, and is found again', async () => {
  const queue = await sqs.current.queue()
  const between = await sqs.current.network()
  await between.down()
  const ids = await publishAll(
    root,
    Array.from({ length: 9 }, (_, n) => ({ topic: queue, key: `key ${n % 3}`, payload: { n } })),
  )
  const client = new SQSClient(clientSettings(endpointAt(between)))
  const subject = await RelayUnderTest.started(root, sqs.current.publisher({ client }), {
    retry: { attempts: 1, delayMs: () => 1 },
  })
  await subject.hears('unavailable', 2)
  expect(String(subject.heard('unavailable')[0]?.error)).toContain('ECONNREFUSED')
  await between.up()
  await outbox.settled()
  client.destroy()
  expect(subject.heard('parked')).toEqual([])
  const received = await sqs.current.take(queue)
  expect(received.map((each) => fromSqs(each).id).toSorted()).toEqual(ids.toSorted())
})
