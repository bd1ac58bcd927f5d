import { expect, test } from 'vitest'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { Broker } from '../../support/worlds/broker.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 24 })
const CONSUMERS = ['billing', 'mailer', 'search']

/** The ids of a consumer's messages, in the order in which they wait. */
async function waitingIds(subject: LocalUnderTest, consumer: string): Promise<string[]> {
  const id = target.engine === 'postgres' ? 'id' : 'cast(id as char) as id'
  const rows = await subject.sql(
    `select ${id} from ${subject.table('local_outbox')} as o where consumer = ? order by o.seq`,
    consumer,
  )
  return rows.map((row) => String(row['id']))
}

test('L2 a message reaches each subscriber of its type once, under one id', async () => {
  const subject = new LocalUnderTest(target, root, {
    made: CONSUMERS,
    paid: ['billing', 'search'],
    sent: ['mailer'],
  })
  const ids = await subject.publish(
    ...[{ key: 'a' }, { type: 'paid', key: 'a' }, { type: 'sent' }, { type: 'paid' }, { key: 'b' }],
  )
  const [made1, paid1, sent, paid2, made2] = ids as [string, string, string, string, string]
  for (const consumer of CONSUMERS) {
    const handlers = Object.fromEntries(['made', 'paid', 'sent'].map((type) => [type, () => undefined]))
    await subject.start(consumer, handlers)
    await subject.settled(consumer)
  }
  const effects = await Promise.all(CONSUMERS.map((consumer) => subject.effectsInOrder(consumer)))
  expect(effects.map((each) => each.toSorted())).toEqual([
    [made1, paid1, paid2, made2].toSorted(),
    [made1, sent, made2].toSorted(),
    [made1, paid1, paid2, made2].toSorted(),
  ])
  expect(await outbox.backlog()).toEqual([])
})

test('L2 a message with a topic also goes to the relay, with the same id, and one without a topic does not', async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish(
    { key: 'a' },
    { key: 'a', topic: 'orders' },
    { type: 'other', topic: 'orders' },
  )
  expect((await outbox.backlog()).map(({ id }) => id).toSorted()).toEqual(ids.slice(1).toSorted())
  const broker = new Broker()
  await RelayUnderTest.started(root, broker.publisher())
  await subject.start('billing')
  await subject.hears('handled', 2)
  await outbox.settled()
  expect(broker.ids().toSorted()).toEqual(ids.slice(1).toSorted())
  expect(await subject.effectsInOrder()).toEqual(ids.slice(0, 2))
  expect(subject.runs.map(({ message }) => message.topic)).toEqual([undefined, 'orders'])
})

test('L2 a transaction that rolls back, and a savepoint that is rolled back, leave no message to any consumer', async () => {
  const subject = new LocalUnderTest(target, root, CONSUMERS)
  const rolledBack = await root.begin()
  await subject.publishIn(rolledBack, { key: 'a' })
  await rolledBack.rollback()
  const partly = await root.begin()
  const kept = await subject.publishIn(partly, { key: 'a' })
  await partly.savepoint('earlier')
  await subject.publishIn(partly, { key: 'a' })
  await partly.rollbackTo('earlier')
  await partly.commit()
  for (const consumer of CONSUMERS) {
    await subject.start(consumer)
    await subject.settled(consumer)
    expect(await subject.effectsInOrder(consumer)).toEqual([kept])
  }
})

test('L2 the messages of one call are stored in the order given, for each subscriber', async () => {
  const subject = new LocalUnderTest(target, root, CONSUMERS)
  const ids = await subject.publishTogether(Array.from({ length: 50 }, () => ({ key: 'a' })))
  for (const consumer of CONSUMERS) expect(await waitingIds(subject, consumer)).toEqual(ids)
  await Promise.all(CONSUMERS.map((consumer) => subject.start(consumer)))
  for (const consumer of CONSUMERS) {
    await subject.settled(consumer)
    expect(await subject.effectsInOrder(consumer)).toEqual(ids)
  }
  expect(subject.violations).toEqual([])
})

test("L2 with subscriptions: 'registered', those count that were registered when the message was published", async () => {
  const subject = new LocalUnderTest(target, root, [], { subscriptions: 'registered', unrouted: 'ignore' })
  const type = subject.name('type')
  const [tooEarly] = await subject.publish({ type, key: 'a' })
  const first = await subject.start('billing', { [type]: () => undefined })
  const [early] = await subject.publish({ type, key: 'a' })
  await subject.hears('handled')
  await first.stop()
  // A registration stays when its consumer stops.
  const [between] = await subject.publish({ type, key: 'a' })
  await subject.start('mailer', { [type]: () => undefined })
  const [late] = await subject.publish({ type, key: 'a' })
  await subject.start('billing', { [type]: () => undefined })
  await subject.settled('billing')
  await subject.settled('mailer')
  expect(await subject.effectsInOrder('billing')).toEqual([early, between, late])
  expect(await subject.effectsInOrder('mailer')).toEqual([late])
  expect(subject.runs.map(({ id }) => id)).not.toContain(tooEarly)
})

test('L2 a consumer that starts again and again, or in several processes at once, is registered once', async () => {
  const subject = new LocalUnderTest(target, root, [], { subscriptions: 'registered' })
  const type = subject.name('type')
  const others = [target.open(mainKind(target), { max: 6 }), target.open(mainKind(target), { max: 6 })]
  const consumers = [root, ...others].map((through) =>
    subject.create('billing', { [type]: () => undefined }, {}, through),
  )
  try {
    await Promise.all(consumers.map((consumer) => consumer.start()))
    const rows = await subject.sql(`select 1 from ${subject.table('subscriptions')} where consumer = ?`)
    expect(rows.length).toBe(1)
    const ids = await subject.publish({ type, key: 'a' }, { type, key: 'b' }, { type })
    await subject.settled()
    expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
  } finally {
    await Promise.all(consumers.map((consumer) => consumer.stop()))
    await Promise.all(others.map((other) => other.close()))
  }
})

test('L2 a message with deliverAt reaches each subscriber once, and not before its time', async () => {
  const subject = new LocalUnderTest(target, root, CONSUMERS)
  for (const consumer of CONSUMERS) await subject.start(consumer)
  const deliverAt = new Date((await target.now()).getTime() + 700)
  const [later] = await subject.publish({ key: 'a', deliverAt })
  const [now] = await subject.publish({ key: 'a' })
  const published = performance.now()
  for (const consumer of CONSUMERS) {
    await subject.hears('handled', 2, consumer)
    expect(await subject.effectsInOrder(consumer)).toEqual([now, later])
  }
  const early = subject.runs.filter(({ id, at }) => id === later && at - published < 500)
  expect(early).toEqual([])
})

test('L2 names that contain each other, or a slash, are different consumers', async () => {
  const names = ['a', 'a/b', 'a/b/00', '%', '_', 'A']
  const subject = new LocalUnderTest(target, root, names)
  // The suffix comes after the name, so that the names contain each other as they are stored, too.
  const ids = await subject.publish({ key: 'a' }, {}, { key: 'a' })
  for (const name of names) {
    await subject.start(name)
    await subject.settled(name)
    for (const other of names.slice(names.indexOf(name) + 1)) expect(await subject.waiting(other)).toBe(3)
  }
  for (const name of names) {
    const handled = subject.runs.filter(({ consumer }) => consumer === name).map(({ id }) => id)
    expect(handled.toSorted()).toEqual(ids.toSorted())
  }
})

test('L2 two publishes of one id are two effects, and with deduplication one', async () => {
  const subject = new LocalUnderTest(target, root, CONSUMERS)
  const unique = new LocalUnderTest(target, root, CONSUMERS, { deduplication: {} })
  for (let n = 0; n < 2; n += 1) {
    await subject.publish({ id: `order-${subject.name('1')}`, key: 'a' })
    await unique.publish({ deduplicationId: `order-${unique.name('1')}`, key: 'a' })
  }
  for (const consumer of CONSUMERS) {
    await subject.start(consumer)
    await unique.start(consumer)
    await subject.settled(consumer)
    await unique.settled(consumer)
    expect((await subject.effectsInOrder(consumer)).length).toBe(2)
    expect((await unique.effectsInOrder(consumer)).length).toBe(1)
  }
})
