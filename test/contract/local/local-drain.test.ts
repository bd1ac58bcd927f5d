import { setTimeout as sleep } from 'node:timers/promises'
import { PermanentError } from '@txbox/consumer'
import { expect, onTestFinished, test } from 'vitest'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 12 })

test('L1 T6 drain handles what is there without a start, and leaves no lease', async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish(...Array.from({ length: 40 }, (_, n) => ({ key: `k${n % 5}` })))
  const consumer = subject.create('billing')
  expect(await consumer.drain()).toEqual({ handled: 40, parked: 0, deadLettered: 0, left: 0 })
  expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
  expect(await outbox.heldLeases()).toBe(0)
})

test('L1 T6 drain of nothing ends at once', async () => {
  const subject = new LocalUnderTest(target, root)
  const consumer = subject.create('billing')
  const begunAt = performance.now()
  expect(await consumer.drain()).toEqual({ handled: 0, parked: 0, deadLettered: 0, left: 0 })
  expect(performance.now() - begunAt).toBeLessThan(3000)
})

test('L5 T6 drain counts what was parked and what is dead, does not wait for a later attempt, and works again', async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish(...['a', 'a', 'b', 'c', 'd'].map((key) => ({ key })))
  let isHealed = false
  const consumer = subject.create(
    'billing',
    (_tx, { id }) => {
      if (isHealed) return
      if (id === ids[0]) throw new Error('later')
      if (id === ids[2]) throw new PermanentError('never')
    },
    { retry: { attempts: 5, delayMs: () => 1000 } },
  )
  const first = await consumer.drain()
  expect(first).toMatchObject({ handled: 2, deadLettered: 1, left: 0 })
  expect(first.parked).toBeGreaterThanOrEqual(1)
  isHealed = true
  await sleep(1200)
  expect(await consumer.drain()).toMatchObject({ handled: 2, deadLettered: 0, left: 0 })
  const effects = await subject.effectsInOrder()
  expect(effects.filter((id) => id === ids[0] || id === ids[1])).toEqual(ids.slice(0, 2))
})

test('L1 T6 drain ends at its deadline, says what is left, and handles none of it twice', async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish(...Array.from({ length: 200 }, (_, n) => ({ key: `k${n % 3}` })))
  const consumer = subject.create('billing', () => sleep(30))
  const begunAt = performance.now()
  const drained = await consumer.drain({ deadlineMs: 1000 })
  expect(performance.now() - begunAt).toBeLessThan(2500)
  expect(drained.handled).toBeGreaterThan(0)
  expect(drained.left).toBe(200 - drained.handled)
  expect((await subject.effectsInOrder()).length).toBe(drained.handled)
  expect(await outbox.heldLeases()).toBe(0)
  await subject.start('billing')
  await subject.settled()
  expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
})

test('L4 T6 drains of one consumer in two processes at once share the messages, each with one effect', async () => {
  const subject = new LocalUnderTest(target, root)
  const other = target.open(mainKind(target), { max: 8 })
  onTestFinished(() => other.close())
  const ids = await subject.publish(...Array.from({ length: 60 }, (_, n) => ({ key: `k${n % 8}` })))
  const consumers = [root, other].map((through) => subject.create('billing', () => sleep(5), {}, through))
  const drained = await Promise.all(consumers.map((consumer) => consumer.drain()))
  expect(drained.reduce((sum, { handled }) => sum + handled, 0)).toBe(60)
  const effects = await subject.effectsInOrder()
  expect(effects.toSorted()).toEqual(ids.toSorted())
  for (let k = 0; k < 8; k += 1) {
    const ofKey = ids.filter((_, n) => n % 8 === k)
    expect(effects.filter((id) => ofKey.includes(id))).toEqual(ofKey)
  }
  expect(subject.violations).toEqual([])
})
