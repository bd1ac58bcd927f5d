import { expect, inject, onTestFinished, test } from 'vitest'
import {
  InvalidOptionError,
  ReceiptExpiredError,
  type Delivery,
  type OpenSource,
  type TransactionHandle,
} from '@txbox/core'
import { createQueue, queueSource, type Queue, type QueueOptions } from '@txbox/queue'
import { QueueUnderTest } from '../../support/subjects/queue-under-test.ts'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 8 })
const NEVER = new AbortController().signal
const MANY = inject('tier') === 'all' ? 1000 : 250
const WHY = new Error('busy')

async function opened(
  options: Partial<QueueOptions> = {},
  prefetch = 100,
): Promise<{ subject: QueueUnderTest; source: OpenSource }> {
  const subject = new QueueUnderTest(target, root, options)
  return { subject, source: await open(subject.queue, prefetch) }
}

async function open(queue: Queue<TransactionHandle>, prefetch = 100): Promise<OpenSource> {
  const failed = (error: unknown): void => {
    throw error
  }
  const source = await queueSource(queue, { pollIntervalMs: { min: 5, max: 20 } }).open({ prefetch, failed })
  onTestFinished(() => source.close())
  return source
}

async function next(source: OpenSource): Promise<Delivery> {
  const [delivery, ...others] = await source.receive(1, { signal: AbortSignal.timeout(20_000) })
  if (delivery === undefined || others.length > 0) throw new Error('Not exactly one delivery.')
  return delivery
}

test('Q2 Q3 the source of a queue declares what it does by itself, and delivers the messages of a key one by one', async () => {
  const { subject, source } = await opened({ visibilityTimeoutMs: 5000 })
  expect(queueSource(subject.queue).traits).toEqual({
    delays: true,
    countsDeliveries: true,
    keepsRejected: true,
    ordersKeys: true,
    settlesInTransaction: true,
    leaseMs: 5000,
    maxDeliveries: 10,
  })
  expect(queueSource(subject.queue).name).toBe(`queue ${subject.queue.name}`)
  const ids = await subject.send({ key: 'a', type: 't', payload: [1] }, { key: 'a' })
  const [first, ...others] = await source.receive(10, { signal: NEVER })
  expect(others).toEqual([])
  expect(first).toMatchObject({ key: 'a', deliveries: 1, message: { id: ids[0], type: 't', payload: [1] } })
  expect(first!.lost.aborted).toBe(false)
  await first!.accept()
  expect((await next(source)).message.id).toBe(ids[1])
})

test('Q5 Q11 retry delivers a message again after its delay, counted or not; accept ends the message', async () => {
  const { subject, source } = await opened()
  await subject.send({ key: 'a' })
  const first = await next(source)
  await first.retry({ delayMs: 0, error: WHY, counted: true })
  const second = await next(source)
  expect(second.deliveries).toBe(2)
  const before = performance.now()
  await second.retry({ delayMs: 300, error: WHY, counted: false })
  const third = await next(source)
  expect(performance.now() - before).toBeGreaterThanOrEqual(290)
  expect(third.deliveries).toBe(2)
  await third.accept()
  expect(await subject.size()).toBe(0)
})

test('Q12 reject makes a dead letter', async () => {
  const { subject, source } = await opened()
  const [id] = await subject.send({})
  await (await next(source)).reject({ error: WHY })
  expect(await subject.queue.deadLetters.list()).toMatchObject([
    { id, error: expect.stringMatching(/^busy \(Error at /) },
  ])
})

test('Q7 settleIn accepts when the transaction commits; after a rollback the delivery is retried', async () => {
  const { subject, source } = await opened()
  const [id] = await subject.send({ key: 'a' }, { key: 'a' })
  const first = await next(source)
  const work = await root.begin()
  await first.settleIn!(work.tx)
  await work.rollback()
  await first.retry({ delayMs: 0, error: WHY, counted: true })
  const second = await next(source)
  expect(second.message.id).toBe(id)
  const again = await root.begin()
  await second.settleIn!(again.tx)
  await again.commit()
  await second.accept()
  expect(second.lost.aborted).toBe(false)
  expect(await subject.size()).toBe(1)
})

test('Q8 after settleIn the delivery is not lost, however long its transaction is open', async () => {
  const { subject, source } = await opened({ visibilityTimeoutMs: 1000 })
  await subject.send({ key: 'a' })
  const delivery = await next(source)
  const work = await root.begin()
  await delivery.settleIn!(work.tx)
  await target.past(new Date((await target.now()).getTime() + 1200))
  expect(delivery.lost.aborted).toBe(false)
  await work.commit()
  expect(await subject.size()).toBe(0)
})

/** Lets the visibility timeout pass while a transaction that has settled the delivery is open, and then rolls back. */
async function rolledBackLate(): Promise<{ subject: QueueUnderTest; delivery: Delivery; id: string }> {
  const { subject, source } = await opened({ visibilityTimeoutMs: 1000 })
  const [id] = await subject.send({ key: 'a' }, { key: 'a' })
  const delivery = await next(source)
  const work = await root.begin()
  await delivery.settleIn!(work.tx)
  await target.past(new Date((await target.now()).getTime() + 1200))
  await work.rollback()
  return { subject, delivery, id: id! }
}

test('Q7 Q8 a transaction outlives the visibility timeout and rolls back: every settlement of its delivery is still possible', async () => {
  const retried = await rolledBackLate()
  await retried.delivery.retry({ delayMs: 60_000, error: WHY, counted: false })
  expect(retried.delivery.lost.aborted).toBe(false)
  expect(await retried.subject.receive()).toEqual([])

  const rejected = await rolledBackLate()
  await rejected.delivery.reject({ error: WHY })
  expect(await rejected.subject.queue.deadLetters.list()).toMatchObject([
    { id: rejected.id, error: expect.stringMatching(/^busy \(Error at /) },
  ])

  const extended = await rolledBackLate()
  await extended.delivery.extend!(60_000)
  expect(await extended.subject.receive()).toEqual([])
  await extended.delivery.accept()
  expect(await extended.subject.size()).toBe(1)

  const settled = await rolledBackLate()
  const again = await root.begin()
  await settled.delivery.settleIn!(again.tx)
  await again.commit()
  expect(await settled.subject.size()).toBe(1)
})

test('Q9 a transaction outlives the visibility timeout and rolls back, and another receiver takes the message: the delivery is lost and changes nothing', async () => {
  for (const settle of ['retry', 'reject'] as const) {
    const { subject, delivery, id } = await rolledBackLate()
    const other = await subject.receiveOne()
    expect(other.message.id).toBe(id)
    await delivery[settle]({ delayMs: 0, error: WHY, counted: true })
    expect(delivery.lost.aborted).toBe(true)
    await subject.queue.delete(other)
    expect(await subject.queue.deadLetters.list()).toEqual([])
    expect(await subject.size()).toBe(1)
  }
  const { subject, delivery } = await rolledBackLate()
  const other = await subject.receiveOne()
  const work = await root.begin()
  await expect(delivery.settleIn!(work.tx)).rejects.toThrow(ReceiptExpiredError)
  await work.rollback()
  await subject.queue.delete(other)
})

test('Q9 of several settlements the first counts, and a settlement after lost changes nothing', async () => {
  const { subject, source } = await opened({ visibilityTimeoutMs: 1000 })
  const [id] = await subject.send({ key: 'a' })
  const lost = await next(source)
  await until(
    async () => lost.lost.aborted,
    () => 'the delivery is lost',
  )
  expect(lost.lost.reason).toBeInstanceOf(ReceiptExpiredError)
  const second = await next(source)
  expect(second).toMatchObject({ deliveries: 2, message: { id } })
  await lost.accept()
  await lost.retry({ delayMs: 0, error: WHY, counted: true })
  await lost.reject({ error: WHY })
  await lost.extend!(60_000)
  const work = await root.begin()
  await expect(lost.settleIn!(work.tx)).rejects.toThrow(ReceiptExpiredError)
  await work.rollback()
  expect(await subject.size()).toBe(1)
  await Promise.all([second.retry({ delayMs: 60_000, error: WHY, counted: true }), second.accept()])
  await second.accept()
  await second.extend!(60_000)
  expect(second.lost.aborted).toBe(false)
  expect(await subject.size()).toBe(1)
  expect(await subject.receive()).toEqual([])
})

test('Q9 a delivery that another receiver has is lost at the next settlement', async () => {
  const { subject, source } = await opened()
  await subject.send({ key: 'a' })
  const delivery = await next(source)
  await subject.expire()
  const other = await subject.receiveOne()
  await delivery.accept()
  expect(delivery.lost.aborted).toBe(true)
  await subject.queue.delete(other)
})

test('Q6 extend keeps a delivery beyond its timeout, and a delivery that is gone is reported as lost', async () => {
  const { subject, source } = await opened({ visibilityTimeoutMs: 1000 })
  await subject.send({ key: 'a' })
  const delivery = await next(source)
  await delivery.extend!(60_000)
  await target.past(new Date((await target.now()).getTime() + 1200))
  expect(delivery.lost.aborted).toBe(false)
  expect(await subject.receive()).toEqual([])
  await subject.expire()
  await delivery.extend!(60_000)
  expect(delivery.lost.aborted).toBe(true)
  expect(await subject.receive()).toHaveLength(1)
})

test('prefetch limits the unsettled deliveries; settled and lost deliveries make room', async () => {
  const { subject, source } = await opened({}, 2)
  await subject.sendTogether([{}, {}, {}, {}])
  const [first, second, ...others] = await source.receive(10, { signal: NEVER })
  expect(others).toEqual([])
  const stopping = new AbortController()
  setTimeout(() => stopping.abort(), 100)
  expect(await source.receive(10, stopping)).toEqual([])
  const waiting = source.receive(10, { signal: NEVER })
  await first!.accept()
  expect(await waiting).toHaveLength(1)
  await second!.retry({ delayMs: 60_000, error: WHY, counted: true })
  expect(await source.receive(10, { signal: NEVER })).toHaveLength(1)
})

test('Q11 close gives back the unsettled deliveries, uncounted, and ends a receive that waits', async () => {
  const { subject, source } = await opened()
  const waiting = source.receive(10, { signal: NEVER })
  const [id] = await subject.send({ key: 'a' })
  expect(await waiting).toHaveLength(1)
  const idle = source.receive(10, { signal: NEVER })
  await source.close()
  await source.close()
  expect(await idle).toEqual([])
  const other = await next(await open(subject.queue))
  expect(other).toMatchObject({ deliveries: 1, message: { id } })
})

test('Q11 close waits for a settlement in flight, and gives the message back if the settlement fails', async () => {
  const { proxy, through } = await rootThroughProxy(target, mainKind(target))
  const subject = new QueueUnderTest(target, root, { visibilityTimeoutMs: 60_000 })
  const source = await open(subject.twin(through, { visibilityTimeoutMs: 60_000 }))
  const ids = await subject.send({ key: 'a' }, { key: 'b' })
  const [first, second] = await source.receive(10, { signal: NEVER })
  proxy.cutBefore(/payload = ''/)
  const accepting = expect(first!.accept()).rejects.toThrow()
  await source.close()
  await accepting
  expect([first!, second!].map(({ lost }) => lost.aborted)).toEqual([true, true])
  const again = await subject.receive()
  expect(again.map(({ message }) => message.id).toSorted()).toEqual(ids.toSorted())
  expect(again.map(({ receives }) => receives)).toEqual([1, 1])
})

test('a message that cannot be decoded is delivered with the reason and its bytes', async () => {
  const { subject, source } = await opened()
  const payload = Buffer.from('{"secret":')
  const [id] = await subject.send({ payload, contentType: 'application/json' })
  const delivery = await next(source)
  expect(delivery.message.id).toBe(id)
  expect(String(delivery.undecodable)).toMatch(/is not JSON/)
  expect(String(delivery.undecodable)).not.toContain('secret')
  expect(Buffer.from(delivery.message.payload as Uint8Array).equals(payload)).toBe(true)
})

test('a value that is not a queue, and options out of their bounds, are refused', () => {
  const queue = createQueue({ database: root.database, name: 'q' })
  const sending = createQueue({ database: target.detached(), name: 'q' })
  for (const wrong of [undefined, {}, 'q', sending]) {
    expect(() => queueSource(wrong as never)).toThrow(InvalidOptionError)
  }
  for (const pollIntervalMs of [{ min: 0 }, { max: 3_600_001 }, { min: 50, max: 10 }, { every: 1 }, 5]) {
    expect(() => queueSource(queue, { pollIntervalMs } as never)).toThrow(InvalidOptionError)
  }
  expect(() => queueSource(queue, { poll: 1 } as never)).toThrow(/there is no option 'poll'/)
})

test('each of many deliveries ends as its random verdict says', async () => {
  const { subject, source } = await opened({ maxReceives: 1000 })
  const ids = await subject.sendTogether(
    Array.from({ length: MANY }, (_, n) => (n % 2 ? {} : { key: `k${n % 60}` })),
  )
  const accepted: string[] = []
  const rejected: string[] = []
  while (accepted.length + rejected.length < ids.length) {
    const deliveries = await source.receive(100, { signal: AbortSignal.timeout(20_000) })
    const settle = async (delivery: Delivery): Promise<void> => {
      const chance = Math.random()
      if (chance < 0.1) return delivery.retry({ delayMs: 0, error: WHY, counted: chance < 0.05 })
      if (chance < 0.15) {
        await delivery.reject({ error: WHY })
        rejected.push(delivery.message.id)
        return
      }
      await delivery.accept()
      accepted.push(delivery.message.id)
    }
    await Promise.all(deliveries.map(settle))
  }
  expect([...accepted, ...rejected].toSorted()).toEqual(ids.toSorted())
  expect(await subject.size()).toBe(0)
  expect(await subject.queue.deadLetters.discard({ topic: subject.queue.name })).toHaveLength(rejected.length)
})
