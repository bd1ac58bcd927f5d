import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { PermanentError, type Consumer } from '@txbox/consumer'
import type { QueueOptions } from '@txbox/queue'
import { QueueConsumers } from '../../support/subjects/queue-consumers.ts'
import { sortedIds } from '../../support/subjects/queue-under-test.ts'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 20 })
const consumersOf = (options: Partial<QueueOptions> = {}): QueueConsumers =>
  new QueueConsumers(target, root, options)

test('C26 a batch settles all its messages in one transaction', async () => {
  const consumers = consumersOf()
  const batches: string[][] = []
  const sizes: number[] = []
  const sent = await consumers.subject.send({ key: 'a' }, { key: 'b' }, {}, {}, { key: 'c' })
  await consumers.startBatch(async (_tx, messages) => {
    batches.push(messages.map(({ id }) => id).toSorted())
    sizes.push(await consumers.subject.size())
  })
  await consumers.heard('handled', 5)
  expect(batches).toEqual([sent.toSorted()])
  // None is gone for others before COMMIT.
  expect(sizes).toEqual([5])
  await consumers.empty()
  expect((await consumers.effectsInOrder()).toSorted()).toEqual(sent.toSorted())
})

test('C26 after a batch has failed, its messages are handled one by one, and only the failing message is counted and becomes a dead letter', async () => {
  const consumers = consumersOf()
  const [good, bad, other] = await consumers.subject.send({ key: 'a' }, { key: 'b' }, {})
  await consumers.startBatch((_tx, messages) => {
    if (messages.some(({ id }) => id === bad)) throw new PermanentError('never')
  })
  await consumers.heard('handled', 2)
  await consumers.heard('dead-lettered')
  expect(await Promise.all([good, bad, other].map((id) => consumers.effects(id!)))).toEqual([1, 0, 1])
  expect((await consumers.subject.queue.deadLetters.list()).map(({ id }) => id)).toContain(bad)
  expect(consumers.count('retried')).toBe(0)
  await consumers.empty()
})

test('C6 C26 a message of a batch that another consumer has handled costs the other messages neither an effect nor an attempt', async () => {
  const consumers = consumersOf()
  const { subject } = consumers
  const [a, , c] = await subject.send({ key: 'a' }, { key: 'b' }, { key: 'c' })
  const consumer = await consumers.startBatch(() => undefined, { batch: { maxSize: 4, lingerMs: 1500 } })
  await until(
    async () => consumer.figures.inHand === 3,
    () => 'the batch is held',
  )
  // Another consumer has received and handled it.
  await subject.sql(`delete from ${subject.table} where topic = ? and order_key = 'b'`)
  await consumers.heard('handled', 2)
  await consumers.heard('lost')
  expect(sortedIds(await consumers.effectsInOrder())).toEqual(sortedIds([a, c]))
  expect(consumers.runs.map(({ deliveries }) => deliveries)).toEqual([1, 1])
  expect(consumers.count('retried')).toBe(0)
  await consumers.empty()
})

test('C10 a handler that takes longer than the visibility timeout fails for good: its message becomes a dead letter with its error', async () => {
  const consumers = consumersOf({ visibilityTimeoutMs: 1000 })
  const [id, next] = await consumers.subject.send({ key: 'a' }, { key: 'a' })
  const handler = async (_tx: unknown, message: { id: string }): Promise<void> => {
    if (message.id !== id) return
    await sleep(1300)
    throw new PermanentError('never')
  }
  await consumers.start(handler, { concurrency: 1, prefetch: 1 })
  await consumers.heard('handled')
  expect(consumers.runs.map((run) => run.id)).toEqual([id, next])
  expect(consumers.events.map(({ event }) => event)).toEqual(['dead-lettered', 'handled'])
  expect(await consumers.subject.queue.deadLetters.list()).toMatchObject([
    { id, error: expect.stringMatching(/^never \(PermanentError at /) },
  ])
})

test('C11 a handler that takes longer than the visibility timeout fails: its message is received again after the delay, and is no suspect', async () => {
  const consumers = consumersOf({ visibilityTimeoutMs: 1000 })
  const [id] = await consumers.subject.send({ key: 'a' })
  const handler = async (
    _tx: unknown,
    _message: unknown,
    { deliveries }: { deliveries: number },
  ): Promise<void> => {
    await sleep(1300)
    if (deliveries < 2) throw new Error('failed')
  }
  const retry = { attempts: 10, delayMs: () => 1000 }
  await consumers.start(handler, { concurrency: 1, prefetch: 1, retry })
  await consumers.heard('retried')
  const [row] = await consumers.subject.sql(
    `select timeouts, error from ${consumers.subject.table} where topic = ?`,
  )
  expect(Number(row!['timeouts'])).toBe(0)
  await consumers.heard('handled')
  const [first, second] = consumers.runs
  expect([first!.id, second!.id, second!.deliveries]).toEqual([id, id, 2])
  expect(second!.at - first!.at).toBeGreaterThanOrEqual(2290)
  expect(consumers.count('lost')).toBe(0)
})

test('C10 a message whose last attempt fails after another consumer has received it is reported as lost, and not as a dead letter', async () => {
  const consumers = consumersOf({ visibilityTimeoutMs: 1500 })
  const { subject } = consumers
  await subject.send({ key: 'a' })
  // The other consumer receives the message between the rollback and the settlement.
  const marks = {
    begin: async () => ({ status: 'won', token: 'token' }),
    extend: async () => true,
    complete: async () => 'completed',
    release: async () => void (await subject.receiveOne({ waitMs: 5000 })),
  }
  const handler = async (): Promise<void> => {
    // Between two heartbeats: the next one extends the visibility timeout again.
    await sleep(1600)
    throw new Error('failed')
  }
  const retry = { attempts: 1, delayMs: () => 0 }
  await consumers.start(handler, { concurrency: 1, prefetch: 1, retry, dedup: marks })
  await consumers.heard('lost')
  await sleep(100)
  expect(consumers.events.map(({ event }) => event)).toEqual(['lost'])
  expect(await subject.queue.deadLetters.list()).toEqual([])
})

test('C6 Q7 a delivery that another consumer has received has no effect, and no attempt is counted', async () => {
  const consumers = consumersOf()
  const busy = Promise.withResolvers<void>()
  const [a, b] = await consumers.subject.send({ key: 'a' }, { key: 'b' })
  const consumer = await consumers.start(() => busy.promise, { concurrency: 1, prefetch: 2 })
  await until(
    async () => consumer.figures.inHand === 2 && consumers.runs.length === 1,
    () => 'one runs, and one waits',
  )
  const running = consumers.runs[0]!.id
  await consumers.expire(running === a ? 'b' : 'a')
  const other = await consumers.subject.receiveOne()
  expect([a, b]).toContain(other.message.id)
  expect(other.message.id).not.toBe(running)
  busy.resolve()
  await consumers.heard('lost')
  await consumers.heard('handled')
  expect(await consumers.effectsInOrder()).toEqual([running])
  expect(consumers.count('retried')).toBe(0)
  await consumers.subject.queue.delete(other)
})

test('C1 the connection breaks during COMMIT: the message has one effect', async () => {
  const consumers = consumersOf({ visibilityTimeoutMs: 2000 })
  const { proxy, through } = await rootThroughProxy(target, mainKind(target))
  const armed: ('cutBefore' | 'cutAfter')[] = ['cutBefore', 'cutAfter']
  await consumers.start(
    () => {
      const fault = armed.shift()
      if (fault !== undefined) proxy[fault](/^(?:.{5})?commit/is)
    },
    {},
    through,
  )
  for (const key of ['a', 'b']) {
    const [id] = await consumers.subject.send({ key })
    await consumers.empty()
    expect(await consumers.effects(id!)).toBe(1)
  }
  expect(armed).toEqual([])
  expect(consumers.count('dead-lettered')).toBe(0)
})

test('C1 a consumer keeps the messages that it has received while the database is away', async () => {
  // So long that no message is received again after its timeout.
  const consumers = consumersOf({ visibilityTimeoutMs: 600_000 })
  const { proxy, through } = await rootThroughProxy(target, mainKind(target))
  const sent = await consumers.subject.send(...Array.from({ length: 12 }, () => ({})))
  const hasBegun = Promise.withResolvers<void>()
  let outage: { over: () => void } | undefined
  const consumer = await consumers.start(
    async () => {
      if (outage !== undefined) return
      outage = proxy.refuse()
      hasBegun.resolve()
    },
    { concurrency: 1, prefetch: 24 },
    through,
  )
  await hasBegun.promise
  await consumers.heard('unavailable')
  // The consumer has room for more, and looks for messages in vain.
  await sleep(400)
  expect(consumer.figures.inHand).toBe(12)
  outage?.over()
  await consumers.heard('handled', 12)
  expect(sortedIds(await consumers.effectsInOrder())).toEqual(sortedIds(sent))
  await consumers.empty()
})

test('Q10 a message that ended its consumers twice is handled while its consumer has no other message in flight', async () => {
  const consumers = consumersOf()
  const { subject } = consumers
  const [suspect] = await subject.send({ key: 'suspect' })
  await subject.receiveOne()
  await subject.expire()
  await subject.receiveOne()
  const inHand = new Map<string, number>()
  const free = Promise.withResolvers<void>()
  const consumer: Consumer = await consumers.start(
    async (_tx, { id }) => {
      inHand.set(id, consumer.figures.inHand)
      if (id === suspect) await sleep(300)
      else await free.promise
    },
    { concurrency: 5 },
  )
  await subject.send({ key: 'k0' }, { key: 'k1' }, {})
  await until(
    async () => consumer.figures.running === 3,
    () => 'three run',
  )
  await consumers.expire('suspect')
  await until(
    async () => consumer.figures.inHand === 4,
    () => 'the suspect is held',
  )
  await subject.sendTogether(Array.from({ length: 10 }, (_, n) => ({ key: `l${n}` })))
  await sleep(200)
  expect(consumers.runs.map(({ id }) => id)).not.toContain(suspect)
  free.resolve()
  await consumers.heard('handled', 14)
  expect(inHand.get(suspect!)).toBe(1)
  expect(consumers.runs.findIndex(({ id }) => id === suspect)).toBe(3)
})
