import { expect, onTestFinished, test } from 'vitest'
import { PermanentError, RetryLaterError } from '@txbox/consumer'
import { sortedIds } from '../../support/subjects/queue-under-test.ts'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 16 })

test('L5 C11 a handler that fails is called again after the delay of the policy, counted from 1, and its key waits', async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish({ key: 'a' }, { key: 'a' })
  await subject.start(
    'billing',
    (_tx, { id }, { deliveries }) => {
      if (id === ids[0] && deliveries < 4) throw new Error('failed')
    },
    { retry: { attempts: 10, delayMs: (attempt: number) => attempt * 150 } },
  )
  await subject.settled()
  expect(subject.runs.map(({ id, deliveries }) => [id, deliveries])).toEqual([
    ...[1, 2, 3, 4].map((deliveries) => [ids[0], deliveries]),
    [ids[1], 1],
  ])
  const at = subject.runs.map((run) => run.at)
  for (const n of [1, 2, 3]) expect(at[n]! - at[n - 1]!).toBeGreaterThanOrEqual(n * 150 - 15)
  expect(await subject.effectsInOrder()).toEqual(ids)
  const retried = subject.heardOf('retried')
  expect(retried.map(({ local, deliveries }) => [local, deliveries])).toEqual([
    [false, 1],
    [false, 2],
    [false, 3],
  ])
})

test('L5 the count of deliveries is kept when the consumer stops, and by another process', async () => {
  const subject = new LocalUnderTest(target, root)
  const [id] = await subject.publish({ key: 'a' })
  const fail = (): never => {
    throw new Error('failed')
  }
  const other = target.open(mainKind(target), { max: 8 })
  onTestFinished(() => other.close())
  for (const [n, through] of [root, other].entries()) {
    const consumer = await subject.start(
      'billing',
      fail,
      { retry: { attempts: 10, delayMs: () => 250 } },
      through,
    )
    await subject.hears('retried', n + 1)
    await consumer.stop()
  }
  await subject.start('billing')
  await subject.settled()
  const counted = subject.runsOf(id).map(({ deliveries }) => deliveries)
  expect(counted).toEqual(counted.map((_, n) => n + 1))
  expect(counted.length).toBeGreaterThanOrEqual(3)
})

test('L5 C11 RetryLaterError: the message is delivered again after the time of the error, counted, without an effect', async () => {
  const subject = new LocalUnderTest(target, root)
  const [id] = await subject.publish({ key: 'a' })
  await subject.start(
    'billing',
    (_tx, _message, { deliveries }) => {
      if (deliveries === 1) throw new RetryLaterError({ retryAfterMs: 400 })
    },
    { retry: { attempts: 3, delayMs: () => 60_000 } },
  )
  await subject.settled()
  const [first, second] = subject.runsOf(id)
  expect([first, second].map((run) => run?.deliveries)).toEqual([1, 2])
  expect(second!.at - first!.at).toBeGreaterThanOrEqual(385)
  expect(await subject.effects(id)).toBe(1)
})

test('L5 C12 C13 C14 a short RetryLaterError is retried locally, in a new transaction, without counting a delivery', async () => {
  const subject = new LocalUnderTest(target, root)
  const [id] = await subject.publish({ key: 'a' })
  await subject.start('billing', (_tx, _message, { localRetries, deliveries }) => {
    if (deliveries > 1) return
    if (localRetries > 3) throw new RetryLaterError({ retryAfterMs: 300 })
    throw new RetryLaterError({ retryAfterMs: 5 })
  })
  await subject.settled()
  expect(subject.runsOf(id).map(({ deliveries, localRetries }) => [deliveries, localRetries])).toEqual([
    ...[0, 1, 2, 3, 4].map((localRetries) => [1, localRetries]),
    [2, 0],
  ])
  const [last, next] = subject.runsOf(id).slice(-2)
  expect(next!.at - last!.at).toBeGreaterThanOrEqual(285)
  expect(await subject.effects(id)).toBe(1)
  expect(subject.heardOf('retried').filter(({ local }) => local).length).toBe(4)
})

test('L5 C10 PermanentError makes a dead letter at once, and the last attempt in the end; the key goes on', async () => {
  const subject = new LocalUnderTest(target, root, ['billing', 'mailer'])
  const ids = await subject.publish({ key: 'a' }, { key: 'a' }, { key: 'a' })
  await subject.start(
    'billing',
    (_tx, { id }) => {
      if (id === ids[0]) throw new PermanentError('never')
      if (id === ids[1]) throw new Error('always')
    },
    { retry: { attempts: 3, delayMs: () => 10 } },
  )
  await subject.start('mailer')
  await subject.settled()
  await subject.settled('mailer')
  expect(await subject.effectsInOrder()).toEqual([ids[2]])
  expect(await subject.effectsInOrder('mailer')).toEqual(ids)
  expect(subject.runsOf(ids[0]).length).toBe(1)
  expect(subject.runsOf(ids[1]).map(({ deliveries }) => deliveries)).toEqual([1, 2, 3])
  const dead = await subject.deadLetters.list({ consumer: subject.name() })
  expect(dead).toMatchObject([
    {
      id: ids[0],
      key: 'a',
      type: 'made',
      attempts: 1,
      error: expect.stringMatching(/^never \(PermanentError/),
    },
    { id: ids[1], key: 'a', type: 'made', attempts: 3, error: expect.stringMatching(/^always \(Error/) },
  ])
  expect(await subject.deadLetters.list({ consumer: subject.name('mailer') })).toEqual([])
  expect(subject.heardOf('dead-lettered').map(({ message, deliveries }) => [message.id, deliveries])).toEqual(
    [
      [ids[0], 1],
      [ids[1], 3],
    ],
  )
})

test('L5 C5 a message that cannot be decoded is a dead letter at once, without a call of the handler; its neighbours go on', async () => {
  const subject = new LocalUnderTest(target, root)
  const [broken, behind] = await subject.publish({ key: 'a' }, { key: 'a' })
  const [free] = await subject.publish({ key: 'b' })
  await target.sql(`update ${subject.table('local_outbox')} set payload = ? where consumer = ? and id = ?`, [
    ...[Buffer.from('{"torn":'), subject.parameterOf(), broken],
  ])
  await subject.start('billing')
  await subject.settled()
  expect((await subject.effectsInOrder()).toSorted()).toEqual(sortedIds([behind, free]))
  expect(subject.runsOf(broken)).toEqual([])
  expect(await subject.deadLetters.list({ consumer: subject.name() })).toMatchObject([{ id: broken }])
})

test('L5 C19 at handleTimeoutMs the signal is aborted, the transaction is rolled back, the try is counted, and later writes commit nothing', async () => {
  const subject = new LocalUnderTest(target, root)
  const [id] = await subject.publish({ key: 'a' })
  const late = Promise.withResolvers<unknown>()
  let isAborted = false
  await subject.start(
    'billing',
    async (tx, _message, { deliveries, signal }) => {
      if (deliveries > 1) return
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      isAborted = true
      await until(
        async () => subject.runs.length > 1,
        () => subject.describe(),
      )
      late.resolve(
        await target.effect(tx, `late ${subject.name()}`).then(
          () => 'written',
          (error: unknown) => error,
        ),
      )
    },
    { handleTimeoutMs: 300 },
  )
  await subject.settled()
  expect(await late.promise).toBeInstanceOf(Error)
  expect(isAborted).toBe(true)
  expect(subject.runsOf(id).map(({ deliveries }) => deliveries)).toEqual([1, 2])
  expect([await subject.effects(id), await target.effects(`late ${subject.name()}`)]).toEqual([1, 0])
  expect(subject.heardOf('retried').length).toBe(1)
  // The connection of the late handler serves again, or is gone: neither the pool nor the consumer is stuck.
  const ids = await subject.publish(...Array.from({ length: 20 }, () => ({ key: 'a' })))
  await subject.settled()
  expect(await subject.effectsInOrder()).toEqual([id, ...ids])
})

test('L5 C19 a handler that always takes too long makes a dead letter, and its key goes on', async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish({ key: 'a' }, { key: 'a' })
  const end = Promise.withResolvers<void>()
  onTestFinished(() => end.resolve())
  await subject.start('billing', (_tx, { id }) => (id === ids[0] ? end.promise : undefined), {
    ...{ handleTimeoutMs: 200, retry: { attempts: 2, delayMs: () => 10 } },
  })
  await subject.settled()
  expect(await subject.effectsInOrder()).toEqual([ids[1]])
  expect(await subject.deadLetters.list({ consumer: subject.name() })).toMatchObject([
    { id: ids[0], attempts: 2, error: expect.stringContaining('200') },
  ])
})

test('L5 C23 stop lets running handlers end, and gives back the others, uncounted', async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish(...Array.from({ length: 8 }, (_, n) => ({ key: `k${n}` })))
  const end = Promise.withResolvers<void>()
  const consumer = await subject.start('billing', () => end.promise, { concurrency: 2 })
  await until(
    async () => consumer.figures.running === 2,
    () => 'two handlers run',
  )
  const stopped = consumer.stop({ timeoutMs: 5000 })
  end.resolve()
  await stopped
  expect((await subject.effectsInOrder()).length).toBe(2)
  expect(await subject.left()).toBe(6)
  await subject.start('billing')
  await subject.settled()
  expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
  expect(subject.runs.every(({ deliveries }) => deliveries === 1)).toBe(true)
})

test('L5 T5 a stop whose handlers hang resolves in time: their transactions are rolled back, and nothing is counted', async () => {
  const subject = new LocalUnderTest(target, root)
  const [id] = await subject.publish({ key: 'a' })
  const end = Promise.withResolvers<void>()
  onTestFinished(() => end.resolve())
  const consumer = await subject.start('billing', () => end.promise)
  await until(
    async () => consumer.figures.running === 1,
    () => 'the handler runs',
  )
  const begunAt = performance.now()
  await consumer.stop({ timeoutMs: 500 })
  expect(performance.now() - begunAt).toBeLessThan(1500)
  await subject.start('billing')
  await subject.settled()
  expect(await subject.effects(id)).toBe(1)
  expect(subject.runsOf(id).map(({ deliveries }) => deliveries)).toEqual([1, 1])
})
