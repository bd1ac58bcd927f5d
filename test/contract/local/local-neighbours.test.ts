import { expect, onTestFinished, test } from 'vitest'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { sortedIds } from '../../support/subjects/queue-under-test.ts'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { Broker } from '../../support/worlds/broker.ts'
import { undisturbed } from '../../support/worlds/undisturbed.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 24 })
const [one, other] = keysOfOneShard(2) as [string, string]
/** A minute is longer than each of these tests. */
const LATER_MS = 60_000

/** A handler that does not end before the test does. */
function hanging(): () => Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  onTestFinished(() => resolve())
  return () => promise
}

const TROUBLE = {
  fails: () => {
    throw new Error('always')
  },
  hangs: undefined,
}
for (const [trouble, fail] of Object.entries(TROUBLE)) {
  test(`L2 a consumer whose handler ${trouble} delays neither the other consumers nor the relay`, async () => {
    const subject = new LocalUnderTest(target, root, ['billing', 'mailer', 'search'])
    const broker = new Broker()
    await RelayUnderTest.started(root, broker.publisher())
    await subject.start('billing', fail ?? hanging(), {
      concurrency: 2,
      retry: { attempts: 5, delayMs: () => LATER_MS },
    })
    await subject.start('mailer')
    await subject.start('search')
    // All handlers of the first consumer are busy, or have failed.
    const before = await subject.publish({ key: 'a', topic: 't' }, { key: 'b', topic: 't' }, { topic: 't' })
    await subject.hears('handled', 3, 'mailer')
    const { tookMs } = await undisturbed(target, async () => {
      const ids = await subject.publish({ key: 'a', topic: 't' }, { key: 'b', topic: 't' }, { topic: 't' })
      await Promise.all([
        subject.hears('handled', 6, 'mailer'),
        subject.hears('handled', 6, 'search'),
        broker.received(6),
      ])
      for (const consumer of ['mailer', 'search']) {
        expect((await subject.effectsInOrder(consumer)).toSorted()).toEqual([...before, ...ids].toSorted())
      }
    })
    expect(tookMs).toBeLessThan(1000)
    await outbox.settled()
    expect(await subject.effectsInOrder('billing')).toEqual([])
    expect(await subject.left('billing')).toBe(6)
  })
}

test('L2 L5 a message that waits for its next attempt blocks its own key only, also in its shard', async () => {
  const subject = new LocalUnderTest(target, root)
  const [failing, behind] = await subject.publish({ key: one }, { key: one })
  await subject.start(
    'billing',
    (_tx, { id }) => {
      if (id === failing) throw new Error('not now')
    },
    { retry: { attempts: 5, delayMs: () => LATER_MS } },
  )
  await subject.hears('retried')
  const ids = await subject.publish({ key: other }, {}, { key: other }, { key: one })
  await subject.hears('handled', 3)
  expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.slice(0, 3).toSorted())
  expect(subject.runs.map(({ id }) => id)).not.toContain(behind)
  expect(subject.runsOf(ids[3])).toEqual([])
})

test('L2 a handler that hangs blocks its own key only, while other handlers are free', async () => {
  const subject = new LocalUnderTest(target, root)
  const hang = hanging()
  const [stuck] = await subject.publish({ key: one }, { key: one })
  await subject.start('billing', (_tx, { id }) => (id === stuck ? hang() : undefined), { concurrency: 2 })
  const ids = await subject.publish(
    ...Array.from({ length: 30 }, (_, n) => ({ key: n % 2 === 0 ? other : `k${n}` })),
  )
  await subject.hears('handled', ids.length)
  expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
})

test('L2 handlers that hang stop their consumer until handleTimeoutMs, if there are `concurrency` of them, and not longer', async () => {
  const subject = new LocalUnderTest(target, root)
  const hang = hanging()
  const stuck = await subject.publish({ key: 'a' }, { key: 'b' })
  await subject.start(
    'billing',
    (_tx, { id }, { deliveries }) => (stuck.includes(id) && deliveries === 1 ? hang() : undefined),
    { concurrency: 2, handleTimeoutMs: 400 },
  )
  const [id] = await subject.publish({ key: 'c' })
  await subject.settled()
  expect((await subject.effectsInOrder()).toSorted()).toEqual(sortedIds([...stuck, id]))
})

test('L2 a listener that throws, and a rejected promise that a handler does not wait for, disturb nobody', async () => {
  const subject = new LocalUnderTest(target, root, ['billing', 'mailer'])
  const consumer = await subject.start('billing')
  consumer.on('handled', () => {
    throw new Error('from a listener')
  })
  await subject.start('mailer')
  const ids = await subject.publish({ key: 'a' }, { key: 'a' })
  for (const name of ['billing', 'mailer']) {
    await subject.settled(name)
    expect(await subject.effectsInOrder(name)).toEqual(ids)
  }
})
