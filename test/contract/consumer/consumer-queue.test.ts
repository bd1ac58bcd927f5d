import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { PermanentError, RetryLaterError } from '@txbox/consumer'
import type { Source, TransactionHandle } from '@txbox/core'
import { queueSource, type QueueOptions } from '@txbox/queue'
import { QueueConsumers, type QueueHandler } from '../../support/subjects/queue-consumers.ts'
import { sortedIds } from '../../support/subjects/queue-under-test.ts'
import { randomFrom } from '../../support/worlds/random.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 20 })
const consumersOf = (options: Partial<QueueOptions> = {}): QueueConsumers =>
  new QueueConsumers(target, root, options)

test('C1 C22 Q3 Q7 several consumers: each message has one effect, in the order of its key, whatever fails', async () => {
  const consumers = consumersOf()
  const next = randomFrom(20_261_124)
  const flaky: QueueHandler = async (_tx, _message, { deliveries }) => {
    const chance = next()
    await sleep(chance * 10)
    if (chance < 0.2 && deliveries < 5) throw new Error('flaky')
    if (chance < 0.25) throw new RetryLaterError({ retryAfterMs: 5 })
  }
  for (let n = 0; n < 3; n += 1) await consumers.start(flaky, { concurrency: 4 })
  const sent = Array.from({ length: 120 }, (_, n) => ({
    id: `m${n}`,
    ...(n % 6 === 5 ? {} : { key: `k${n % 6}` }),
  }))
  for (let n = 0; n < sent.length; n += 20) {
    await consumers.subject.send(...sent.slice(n, n + 20))
  }
  await consumers.heard('handled', sent.length)
  await consumers.empty()
  const effects = await consumers.effectsInOrder()
  expect(effects.toSorted()).toEqual(sent.map(({ id }) => id).toSorted())
  for (let k = 0; k < 5; k += 1) {
    const ids = sent.filter(({ key }) => key === `k${k}`).map(({ id }) => id)
    expect(effects.filter((id) => ids.includes(id))).toEqual(ids)
  }
  expect(consumers.count('retried')).toBeGreaterThan(0)
  expect(['lost', 'dead-lettered', 'error', 'order-broken'].map((event) => consumers.count(event))).toEqual([
    0, 0, 0, 0,
  ])
})

test('C11 Q20 a retry policy without a delay for an attempt blocks neither the key nor a message without a key', async () => {
  const consumers = consumersOf({ visibilityTimeoutMs: 60_000 })
  const [first, second, unkeyed] = await consumers.subject.send({ key: 'a' }, { key: 'a' }, {})
  const fails: QueueHandler = (_tx, { id }, { deliveries }) => {
    if (id !== second && deliveries === 1) throw new Error('down')
  }
  const { events } = consumers
  await consumers.start(fails, { retry: { attempts: 3, delayMs: () => undefined } })
  await consumers.heard('handled', 3)
  const handled = events.filter(({ event }) => event === 'handled').map(({ id }) => id)
  expect(handled.filter((id) => id !== unkeyed)).toEqual([first, second])
  expect(consumers.count('error')).toBe(2)
})

test('C18 a consumer keeps receiving: messages that a transaction has accepted make room for other messages', async () => {
  const consumers = consumersOf({ visibilityTimeoutMs: 60_000 })
  const consumer = await consumers.start(() => undefined, { concurrency: 2 })
  await consumers.subject.sendTogether(Array.from({ length: 20 }, () => ({})))
  await consumers.heard('handled', 20)
  expect(await consumers.subject.size()).toBe(0)
  expect(consumer.figures.inHand).toBe(0)
})

test.each(['in the transaction', 'after the handler'])(
  'Q3 the next message of a key is received when its predecessor is settled here, and not by the next poll: %s',
  async (when) => {
    const consumers = consumersOf()
    // An idle consumer polls once a minute.
    const source = queueSource(consumers.subject.queue, { pollIntervalMs: { min: 60_000, max: 60_000 } })
    const ids = await consumers.subject.sendTogether(Array.from({ length: 5 }, () => ({ key: 'a' })))
    const withoutTransaction = { source, database: undefined, name: 'plain', handler: () => undefined }
    await consumers.start(() => undefined, when === 'after the handler' ? withoutTransaction : { source })
    await consumers.heard('handled', ids.length)
    expect(consumers.events.map(({ id }) => id)).toEqual(ids)
  },
)

test('Q3 Q11 a consumer receives at once what the same queue object has released, or what follows a deleted message', async () => {
  const consumers = consumersOf()
  const { subject } = consumers
  const ids = await subject.sendTogether([{ key: 'a' }, { key: 'a' }, { key: 'b' }])
  const received = await subject.receive()
  const of = (id: string | undefined): (typeof received)[number] =>
    received.find(({ message }) => message.id === id)!
  const source = queueSource(subject.queue, { pollIntervalMs: { min: 60_000, max: 60_000 } })
  await consumers.start(() => undefined, { source })
  // The consumer finds nothing, and waits for its next poll.
  await sleep(200)
  await subject.queue.delete(of(ids[0]))
  await consumers.heard('handled', 1)
  await subject.queue.release(of(ids[2]))
  await consumers.heard('handled', 2)
  expect(consumers.events.map(({ id }) => id)).toEqual([ids[1], ids[2]])
})

test('C11 Q5 a handler that fails leaves no effect, keeps its key waiting, and is counted', async () => {
  const consumers = consumersOf()
  const ids = await consumers.subject.send({ key: 'a' }, { key: 'a' })
  await consumers.start(
    (_tx, { id }, { deliveries }) => {
      if (id === ids[0] && deliveries < 3) throw new Error('failed')
    },
    { retry: { attempts: 10, delayMs: () => 200 } },
  )
  await consumers.heard('handled', 2)
  expect(consumers.runs.map(({ id, deliveries }) => [id, deliveries])).toEqual([
    [ids[0], 1],
    [ids[0], 2],
    [ids[0], 3],
    [ids[1], 1],
  ])
  expect(consumers.runs[1]!.at - consumers.runs[0]!.at).toBeGreaterThanOrEqual(190)
  expect(await consumers.effectsInOrder()).toEqual(ids)
})

test('C11 after a conflict the consumer tries the message again at once, in a new transaction that settles it again', async () => {
  const consumers = consumersOf()
  const ids = await consumers.subject.send({ key: 'a' }, { key: 'b' })
  for (const id of ids) await target.sql('insert into counters (name, n) values (?, 0)', [id])
  const both = Promise.withResolvers<void>()
  let inside = 0
  const increment = (tx: TransactionHandle, id: string | undefined): Promise<unknown> =>
    target.exec(tx, 'update counters set n = n + 1 where name = ?', [id])
  await consumers.start(async (tx, { id }) => {
    await increment(tx, id)
    // Both lock their first row before either requests the other's row, so there is always a deadlock.
    if ((inside += 1) === 2) both.resolve()
    await both.promise
    await increment(
      tx,
      ids.find((other) => other !== id),
    )
  })
  await consumers.heard('handled', 2)
  expect(consumers.runs.length).toBeGreaterThan(2)
  expect(consumers.runs.every(({ deliveries }) => deliveries === 1)).toBe(true)
  expect((await consumers.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
  expect(await target.sql('select n from counters where name in (?, ?)', ids)).toEqual([{ n: 2 }, { n: 2 }])
  const retried = consumers.events.filter(({ event }) => event === 'retried')
  expect(retried.length).toBeGreaterThan(0)
  expect(retried.every(({ value }) => Reflect.get(value, 'local'))).toBe(true)
  expect(await consumers.subject.size()).toBe(0)
})

test('C10 Q12 PermanentError, and the last attempt, make a dead letter of the queue without an effect; the key goes on', async () => {
  const consumers = consumersOf({ maxReceives: 3 })
  const ids = await consumers.subject.send({ key: 'a' }, { key: 'a' }, { key: 'a' })
  await consumers.start(
    (_tx, { id }) => {
      if (id === ids[0]) throw new PermanentError('never')
      if (id === ids[1]) throw new Error('always')
    },
    { retry: { attempts: 3, delayMs: () => 10 } },
  )
  await consumers.heard('handled')
  expect(await consumers.effectsInOrder()).toEqual([ids[2]])
  expect(consumers.runs.filter(({ id }) => id === ids[1]).map(({ deliveries }) => deliveries)).toEqual([
    1, 2, 3,
  ])
  const letters = await consumers.subject.queue.deadLetters.list()
  const errors = Object.fromEntries(letters.map(({ id, error }) => [id, error]))
  expect(errors).toMatchObject({
    [ids[0]!]: expect.stringMatching(/^never \(PermanentError at /),
    [ids[1]!]: expect.stringMatching(/^always \(Error at /),
  })
  expect(consumers.count('dead-lettered')).toBe(2)
  expect(await consumers.subject.size()).toBe(0)
})

test('C10 more attempts than the queue has receives are refused', async () => {
  const consumers = consumersOf({ maxReceives: 3 })
  await expect(
    (async () => consumers.start(() => undefined, { retry: { attempts: 4, delayMs: () => 10 } }))(),
  ).rejects.toThrow(/1 to 3 attempts/)
})

test('C19 at handleTimeoutMs the transaction is rolled back, and the message is received again', async () => {
  const consumers = consumersOf()
  const [id] = await consumers.subject.send({ key: 'a' })
  const late = Promise.withResolvers<unknown>()
  await consumers.start(
    async (tx, _message, { deliveries }) => {
      if (deliveries > 1) return
      await sleep(500)
      await target.effect(tx, 'late').catch((error: unknown) => late.resolve(error))
      late.resolve(undefined)
    },
    { handleTimeoutMs: 200 },
  )
  await consumers.heard('handled')
  await late.promise
  expect(consumers.runs.map(({ deliveries }) => deliveries)).toEqual([1, 2])
  expect(await consumers.effects(id!)).toBe(1)
  expect(await target.effects('late')).toBe(0)
  expect(consumers.count('retried')).toBe(1)
})

/** Longer than the visibility timeout of the queues in the next test. */
const HANDLER_MS = 1600

test('C21 handlers, with a transaction and without, may take longer than the visibility timeout', async () => {
  const consumers = consumersOf({ visibilityTimeoutMs: 1000 })
  const ids = await consumers.subject.send({ key: 'a' }, {}, { key: 'b' })
  const plain = consumersOf({ visibilityTimeoutMs: 1000 })
  await plain.subject.send({ key: 'a' }, { key: 'a' })
  await consumers.start(() => sleep(HANDLER_MS), { concurrency: 2, prefetch: 3 })
  await consumers.start(() => sleep(HANDLER_MS), { concurrency: 1 })
  let runs = 0
  let running = 0
  let most = 0
  const handler = async (): Promise<void> => {
    running += 1
    most = Math.max(most, running)
    // The second message of the key comes early if the first one is not kept invisible.
    if ((runs += 1) === 1) await sleep(HANDLER_MS)
    running -= 1
  }
  for (let n = 0; n < 2; n += 1) await plain.start(() => undefined, { database: undefined, handler })

  await consumers.heard('handled', 3)
  expect(consumers.runs.map(({ deliveries }) => deliveries)).toEqual([1, 1, 1])
  expect((await consumers.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
  expect(consumers.count('lost')).toBe(0)
  await plain.heard('handled', 2)
  expect([runs, most, plain.count('lost')]).toEqual([2, 1, 0])
  await plain.empty()
})

test('C23 stop gives back messages that have not begun, uncounted, and messages whose handlers do not end in time', async () => {
  const consumers = consumersOf()
  const ids = await consumers.subject.sendTogether(Array.from({ length: 6 }, (_, n) => ({ key: `k${n}` })))
  const consumer = await consumers.start(() => sleep(60_000), { concurrency: 2, prefetch: 6 })
  await until(
    async () => consumer.figures.inHand === 6 && consumer.figures.running === 2,
    () => 'two run, and four wait',
  )
  // A quarter of this time is for returning the messages, also on a machine that is busy.
  await consumer.stop({ timeoutMs: 4000 })
  expect(await consumers.effectsInOrder()).toEqual([])
  const received = await consumers.subject.receive({ waitMs: 5000, limit: 10 })
  expect(received.map(({ message }) => message.id).toSorted()).toEqual(ids.toSorted())
  expect(received.map(({ receives }) => receives)).toEqual([1, 1, 1, 1, 1, 1])
})

test('C23 an idle consumer that is paused holds no message, and no key, that others could receive', async () => {
  const consumers = consumersOf()
  let receives = 0
  const inner = queueSource(consumers.subject.twin(root), { pollIntervalMs: { min: 5, max: 20 } })
  const source: Source = {
    ...inner,
    async open(how) {
      const open = await inner.open(how)
      const receive = open.receive.bind(open)
      open.receive = (...args) => {
        receives += 1
        return receive(...args).finally(() => (receives -= 1))
      }
      return open
    },
  }
  const paused = await consumers.start(() => undefined, { source })
  // The consumer waits for its next look.
  await sleep(50)
  paused.pause()
  await until(
    async () => receives === 0,
    () => 'the receive in flight ends, and no other begins',
  )
  const ids = await consumers.subject.send({ key: 'a' }, { key: 'a' }, {})
  await sleep(100)
  expect([paused.figures.inHand, receives]).toEqual([0, 0])
  await consumers.start(() => undefined)
  await consumers.heard('handled', 3)
  expect(sortedIds(await consumers.effectsInOrder())).toEqual(sortedIds(ids))
})
