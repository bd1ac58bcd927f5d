import { setTimeout as sleep } from 'node:timers/promises'
import { PermanentError } from '@txbox/core'
import { atLeastOnce, publishEach } from 'txbox'
import { expect, test } from 'vitest'
import { BoxUnderTest } from '../../support/subjects/box-under-test.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 16 })

test('T6 drain handles and publishes what is due, and what handlers publish meanwhile, without a start', async () => {
  const subject = new BoxUnderTest(target, root)
  const published: string[] = []
  const publisher = publishEach(async ({ id }) => void published.push(id))
  const box = subject.create(
    {
      billing: { made: () => box.publish(subject.message('billed', { topic: 'bills' })) },
      mailer: { billed: () => undefined },
    },
    { publisher },
  )
  await box.transact(() => box.publish([1, 2, 3].map(() => subject.message('made', { topic: 'orders' }))))
  expect(await box.drain()).toEqual({
    ...{ handled: 6, published: 6, parked: 0, deadLettered: 0, left: 0 },
    consumers: {
      [subject.name('billing')]: { handled: 3, left: 0 },
      [subject.name('mailer')]: { handled: 3, left: 0 },
    },
  })
  expect(published).toHaveLength(6)
  expect(await outbox.heldLeases()).toBe(0)
  expect(await box.drain()).toMatchObject({ handled: 0, published: 0, left: 0 })
})

test('T6 drain counts what failed, does not wait for a later attempt, and leaves what others subscribe to', async () => {
  const subject = new BoxUnderTest(target, root)
  const subscriptions = { [subject.type('made')]: [subject.name('elsewhere')] }
  const handlers = subject.handlers('billing', {
    made: (_tx, { key }) => {
      if (key === 'later') throw new Error('later')
      if (key === 'never') throw new PermanentError('never')
    },
  })
  const retry = { attempts: 5, delayMs: () => 60_000 }
  const consumers = { [subject.name('billing')]: { handlers, retry } }
  const box = subject.created({ consumers, subscriptions, gc: false, logger: false })
  const keys = ['a', 'later', 'never']
  await box.transact(() => box.publish(keys.map((key) => subject.message('made', { key }))))
  expect(await box.drain()).toMatchObject({ handled: 1, parked: 1, deadLettered: 1, left: 0 })
  expect(await subject.left('elsewhere')).toBe(3)
  await box.deadLetters.discard({ consumer: subject.name('billing') })
})

test('T6 drain ends at its deadline, and says what is left at the consumers and in the outbox', async () => {
  const subject = new BoxUnderTest(target, root)
  let isAway = true
  const publisher = publishEach(async (_, { signal }) => {
    if (isAway) await sleep(600_000, undefined, { signal, ref: false })
  })
  const slow = atLeastOnce(async () => {
    if (isAway) await sleep(200)
  })
  const box = subject.create({ billing: { made: slow } }, { publisher })
  const messages = Array.from({ length: 100 }, (_, n) => subject.message('made', { key: `k${n % 2}` }))
  await box.transact(async () => {
    await box.publish(messages)
    await box.publish([1, 2].map(() => subject.message('nobody', { topic: 'orders' })))
  })
  const begunAt = performance.now()
  const drained = await box.drain({ deadlineMs: 2000 })
  expect(performance.now() - begunAt).toBeLessThan(4000)
  const { handled, left } = drained.consumers[subject.name('billing')]!
  expect(handled).toBeGreaterThan(0)
  expect(handled + left).toBe(100)
  expect(drained).toMatchObject({ handled, published: 0, left: left + 2 })
  isAway = false
  expect(await box.drain()).toMatchObject({ handled: left, left: 0, published: 2 })
})

test('T6 a drain of a box that has been started handles what is due, and the box goes on', async () => {
  const subject = new BoxUnderTest(target, root)
  const box = await subject.start({ billing: { made: () => undefined } })
  await box.transact(() => box.publish(subject.message('made')))
  await box.drain({ deadlineMs: 20_000 })
  expect(await subject.effectsInOrder()).toHaveLength(1)
  await box.transact(() => box.publish(subject.message('made')))
  await subject.hasEffects(2)
})

test('T6 a wrong deadline is refused', async () => {
  const box = new BoxUnderTest(target, root).create()
  for (const deadlineMs of [0, -1, Number.NaN, Infinity, '1']) {
    await expect(box.drain({ deadlineMs: deadlineMs as never })).rejects.toThrow(
      /'deadlineMs' must be a number/,
    )
  }
  await expect(box.drain({ deadline: 5 } as never)).rejects.toThrow(/no option 'deadline'/)
  expect(await box.drain({ deadlineMs: 5000 })).toMatchObject({ handled: 0, left: 0, consumers: {} })
})
