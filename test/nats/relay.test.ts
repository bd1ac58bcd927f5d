import { expect, test } from 'vitest'
import { createInbox, isSettled } from '@txbox/inbox'
import { fromNats } from '@txbox/nats'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { cuttingPublisher } from '../support/subjects/cutting-publisher.ts'
import { RelayUnderTest, publishAll } from '../support/subjects/relay-under-test.ts'
import { idsOf, urlAt, useNats } from './nats-under-test.ts'
import { allNumbers, numbersByKey, steps } from '../support/subjects/steps.ts'
import { stepsIn } from './steps.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target))
const nats = useNats()

test('O1 O2 O3 committed messages arrive in the order of their keys while connections break', async () => {
  const between = await nats.network()
  const stream = await nats.stream()
  const take = await nats.log(stream)
  const ids = await publishAll(root, steps(`${stream}.steps`, 10, 40))
  const publisher = nats.publisher({ servers: urlAt(between.address) })
  const breaking = cuttingPublisher(publisher, () => between.cut())
  const subject = await RelayUnderTest.started(root, breaking, { batchSize: 20 })
  await outbox.settled()
  expect(subject.heard('parked')).toEqual([])
  expect(subject.heard('unavailable').length).toBeGreaterThan(0)
  const stored = await take()
  // JetStream drops the resends.
  expect(idsOf(stored).toSorted()).toEqual(ids.toSorted())
  expect(numbersByKey(stepsIn(stored))).toEqual(allNumbers(10, 40))
})

test('I1 a message that a consumer gets from NATS twice has one effect', async () => {
  const stream = await nats.stream()
  const take = await nats.log(stream)
  const [id] = await publishAll(root, [
    {
      topic: `${stream}.a`,
      key: 'a',
      type: 'order.paid',
      headers: { tenant: 'north' },
      payload: { name: 'paid' },
    },
  ])
  await RelayUnderTest.started(root, nats.publisher())
  await outbox.settled()
  const inbox = createInbox({ database: root.database, consumer: 'billing' })
  const [stored] = await take()
  const message = fromNats<{ name: string }>(stored!)
  expect(message).toMatchObject({ id, type: 'order.paid', headers: { tenant: 'north' } })
  for (let delivery = 0; delivery < 2; delivery += 1) {
    const outcome = await inbox.run(message, (tx, { payload }) => target.effect(tx, payload.name))
    expect(isSettled(outcome)).toBe(true)
  }
  expect(await target.sql('select name from effects')).toEqual([{ name: 'paid' }])
})

test('O4 a subject without a stream parks its messages with the reason, and their keys; other keys continue', async () => {
  const missing = nats.name('missing')
  const stream = await nats.stream()
  const take = await nats.log(stream)
  const [lost, , ...rest] = await publishAll(root, [
    { topic: missing, key: 'a', payload: { key: 'a', n: 1 } },
    { topic: `${stream}.a`, key: 'a', payload: { key: 'a', n: 2 } },
    { topic: `${stream}.a`, key: 'b', payload: { key: 'b', n: 1 } },
    { topic: `${stream}.a`, payload: { key: 'none', n: 1 } },
  ])
  const subject = await RelayUnderTest.started(root, nats.publisher())
  await subject.hears('parked')
  const [parked] = subject.heard('parked')
  expect(parked).toMatchObject({ id: lost, topic: missing, attempt: 1 })
  expect(String(parked?.error)).toContain(`subject '${missing}': no stream takes the subject`)
  const found = await nats.stream({ subjects: [missing] })
  await outbox.settled()
  expect(idsOf(await (await nats.log(found))())).toEqual([lost])
  const stored = await take()
  expect(idsOf(stored).slice(0, 2).toSorted()).toEqual(rest.toSorted())
  expect(numbersByKey(stepsIn(stored))).toMatchObject({ a: [2] })
})

test('O6 an unavailable server costs no attempts, and is found again', async () => {
  const between = await nats.network()
  const stream = await nats.stream()
  const take = await nats.log(stream)
  await between.down()
  const ids = await publishAll(root, steps(`${stream}.steps`, 3, 3))
  const publisher = nats.publisher({ servers: urlAt(between.address) })
  const subject = await RelayUnderTest.started(root, publisher, { retry: { attempts: 1, delayMs: () => 1 } })
  await subject.hears('unavailable', 2)
  expect(String(subject.heard('unavailable')[0]?.error)).toContain('ECONNREFUSED')
  await between.up()
  await outbox.settled()
  expect(subject.heard('parked')).toEqual([])
  expect(idsOf(await take()).toSorted()).toEqual(ids.toSorted())
})
