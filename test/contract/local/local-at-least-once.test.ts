import { expect, onTestFinished, test } from 'vitest'
import { PermanentError, RetryLaterError } from '@txbox/consumer'
import { atLeastOnce, batchAtLeastOnce } from '../../support/subjects/local-parts.ts'
import { LocalUnderTest, MADE } from '../../support/subjects/local-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { Gate } from '../../support/worlds/broker.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 16 })

test('L8 L9 the handler runs without an open transaction, and the row goes after it', async () => {
  const subject = new LocalUnderTest(target, root)
  const gate = new Gate()
  const [id] = await subject.publish({ key: 'a' })
  await subject.startAtLeastOnce('billing', () => gate.pass())
  await gate.reached()
  const first = await outbox.transactions()
  await new Promise((resolve) => setTimeout(resolve, 100))
  const second = new Set((await outbox.transactions()).map((transaction) => transaction.id))
  // A loop may be in a short transaction at either moment, but in none that stays.
  expect(first.filter((transaction) => second.has(transaction.id))).toEqual([])
  expect(await subject.left()).toBe(1)
  gate.open()
  await subject.hears('handled')
  await subject.settled()
  expect(subject.runsOf(id).length).toBe(1)
})

test('L8 context.idempotencyKey is the same for each try, and different for each message and each consumer', async () => {
  const subject = new LocalUnderTest(target, root, ['billing', 'mailer'])
  const ids = await subject.publish({ key: 'a' }, { key: 'a' })
  for (const consumer of ['billing', 'mailer']) {
    await subject.startAtLeastOnce(consumer, (_message, { deliveries, localRetries }) => {
      if (deliveries === 1 && localRetries === 0) throw new RetryLaterError({ retryAfterMs: 5 })
      if (deliveries < 3) throw new Error('failed')
    })
    await subject.settled(consumer)
  }
  const keys = new Map<string, Set<string>>()
  for (const { consumer, id, context } of subject.runs) {
    const name = `${consumer} ${id}`
    keys.set(name, (keys.get(name) ?? new Set()).add(context.idempotencyKey))
  }
  expect([...keys.values()].map((each) => each.size)).toEqual([1, 1, 1, 1])
  expect(new Set(subject.runs.map(({ context }) => context.idempotencyKey)).size).toBe(4)
  for (const consumer of ['billing', 'mailer']) {
    expect(subject.runsOf(ids[0], consumer).map((run) => [run.deliveries, run.localRetries])).toEqual([
      [1, 0],
      [1, 1],
      [2, 0],
      [3, 0],
    ])
  }
})

test('L8 context.idempotencyKey is the same after the consumer was stopped in the middle, and in another process', async () => {
  const subject = new LocalUnderTest(target, root)
  const [id] = await subject.publish({ key: 'a' })
  const gate = new Gate()
  const first = await subject.startAtLeastOnce('billing', () => gate.pass())
  await gate.reached()
  await first.stop({ timeoutMs: 100 })
  const other = target.open(mainKind(target), { max: 8 })
  onTestFinished(() => other.close())
  await subject.startAtLeastOnce('billing', () => undefined, {}, other)
  await subject.settled()
  gate.open()
  const runs = subject.runsOf(id)
  expect(runs.length).toBe(2)
  expect(new Set(runs.map(({ context }) => context.idempotencyKey)).size).toBe(1)
})

test('L8 L5 failures are counted, become dead letters, and keep the key waiting', async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish(...['a', 'a', 'a', 'b'].map((key) => ({ key })))
  await subject.startAtLeastOnce(
    'billing',
    ({ id }, { deliveries }) => {
      if (id === ids[0] && deliveries < 3) throw new Error('not yet')
      if (id === ids[1]) throw new PermanentError('never')
      if (id === ids[3]) throw new Error('always')
    },
    { retry: { attempts: 3, delayMs: () => 20 } },
  )
  await subject.settled()
  const ofA = subject.runs.filter(({ key }) => key === 'a').map(({ id }) => id)
  expect(ofA).toEqual([ids[0], ids[0], ids[0], ids[1], ids[2]])
  const dead = await subject.deadLetters.list({ consumer: subject.name() })
  expect(dead.map(({ id, attempts }) => [id, attempts])).toEqual([
    [ids[1], 1],
    [ids[3], 3],
  ])
  expect(subject.violations).toEqual([])
})

test('L8 L4 many messages: each is handled once while nothing fails, in the order of its key', async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publishTogether(Array.from({ length: 300 }, (_, n) => ({ key: `k${n % 12}` })))
  await subject.startAtLeastOnce('billing', () => undefined)
  await subject.settled()
  for (let k = 0; k < 12; k += 1) {
    const handled = subject.runs.filter(({ key }) => key === `k${k}`).map(({ id }) => id)
    expect(handled).toEqual(ids.filter((_, n) => n % 12 === k))
  }
  expect(subject.violations).toEqual([])
})

test('L8 one consumer may have handlers of both kinds, and the order of a key holds across them', async () => {
  const subject = new LocalUnderTest(target, root, { made: ['billing'], mailed: ['billing'] })
  const seen: string[] = []
  const consumer = subject.created('billing', {
    [MADE]: async (tx: never, { id }: { id: string }) => {
      await target.effect(tx, `${subject.name()} ${id}`)
      seen.push(id)
    },
    mailed: atLeastOnce(({ id }) => void seen.push(id)),
  })
  await subject.started(consumer)
  const ids = await subject.publish(
    ...Array.from({ length: 30 }, (_, n) => ({ key: 'a', type: n % 3 === 0 ? 'mailed' : MADE })),
  )
  await subject.settled()
  expect(seen).toEqual(ids)
  expect(await subject.effectsInOrder()).toEqual(ids.filter((_, n) => n % 3 !== 0))
})

test('L8 L7 a batch at least once: several messages of a key in their order; a failure does not lose any', async () => {
  const subject = new LocalUnderTest(target, root)
  const handled: string[] = []
  let calls = 0
  const consumer = subject.created(
    'billing',
    {
      [MADE]: batchAtLeastOnce((messages, contexts) => {
        calls += 1
        expect(contexts.length).toBe(messages.length)
        if (calls === 2) throw new Error('once')
        handled.push(...messages.map(({ id }) => id))
      }),
    },
    { batch: { maxSize: 10, lingerMs: 20 }, concurrency: 1 },
  )
  await subject.started(consumer)
  const ids = await subject.publish(...Array.from({ length: 40 }, (_, n) => ({ key: `k${n % 2}` })))
  await subject.settled()
  const firsts = [...new Set(handled)]
  expect(firsts.toSorted()).toEqual(ids.toSorted())
  for (const k of [0, 1]) {
    const ofKey = ids.filter((_, n) => n % 2 === k)
    expect(firsts.filter((id) => ofKey.includes(id))).toEqual(ofKey)
  }
})

test('L8 L4 the signal of a handler is aborted when another process may take its key', async () => {
  const subject = new LocalUnderTest(target, root)
  const [id] = await subject.publish({ key: 'a' })
  const aborted = Promise.withResolvers<void>()
  await subject.startAtLeastOnce('billing', async (_message, { signal }) => {
    if (subject.runs.length > 1) return
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    aborted.resolve()
  })
  await until(
    async () => subject.runs.length === 1,
    () => subject.describe(),
  )
  const other = target.open(mainKind(target), { max: 8 })
  onTestFinished(() => other.close())
  await subject.startAtLeastOnce('billing', () => undefined, {}, other)
  let isAborted = false
  void aborted.promise.then(() => (isAborted = true))
  await until(
    async () => {
      await outbox.expireLeases()
      return isAborted
    },
    () => subject.describe(),
  )
  await subject.settled()
  expect(subject.runsOf(id).length).toBeGreaterThanOrEqual(2)
})

test('L8 C19 a handler that takes too long has failed: the try is counted, and the signal is aborted', async () => {
  const subject = new LocalUnderTest(target, root)
  const [id] = await subject.publish({ key: 'a' })
  let isAborted = false
  await subject.startAtLeastOnce(
    'billing',
    async (_message, { signal, deliveries }) => {
      if (deliveries > 1) return
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      isAborted = true
    },
    { handleTimeoutMs: 300 },
  )
  await subject.settled()
  expect(isAborted).toBe(true)
  expect(subject.runsOf(id).map(({ deliveries }) => deliveries)).toEqual([1, 2])
})
