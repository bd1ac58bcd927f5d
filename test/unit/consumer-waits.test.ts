import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { RetryLaterError, createConsumer, type Delivery, type RunsMessages } from '@txbox/consumer'
import { ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const NEVER = new AbortController().signal
const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)
const after = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms))

/** Lets the source give its deliveries to the consumer in another way. */
function withReceive(
  source: MemorySource,
  receive: (deliveries: Promise<readonly Delivery[]>) => Promise<readonly Delivery[]>,
): void {
  const open = source.open.bind(source)
  source.open = async (how) => {
    const inner = await open(how)
    return { ...inner, receive: (limit, options) => receive(inner.receive(limit, options)) }
  }
}

function inboxWith(runBatch: () => Promise<never>): RunsMessages<object> {
  return {
    consumer: 'orders',
    async run(message, fn) {
      const context = { consumer: 'orders', key: message.id, idempotencyKey: '', attempt: 1, signal: NEVER }
      return { status: 'processed', key: message.id, result: await fn({}, message, context) }
    },
    runBatch,
  }
}

test('C23 a delivery that is about to wait for its local retry when the consumer stops goes back at once', async () => {
  const source = new MemorySource()
  source.send('a')
  const subject = new ConsumerUnderTest(source, () =>
    Promise.reject(new RetryLaterError({ retryAfterMs: 40 })),
  )
  subject.consumer.on('retried', () => void subject.consumer.stop())
  await subject.consumer.start()
  await pass(0)
  expect(source.settled).toMatchObject([{ id: 'a', how: 'retry', counted: false, delayMs: 0 }])
  await subject.consumer.stopped
  expect(subject.ids).toEqual(['a'])
})

test('C23 deliveries that a receive returns after the stop go back at once, uncounted', async () => {
  const source = new MemorySource()
  source.send('a')
  withReceive(source, async (deliveries) => {
    const received = await deliveries
    await after(100)
    return received
  })
  const subject = await ConsumerUnderTest.started(source, () => undefined)
  const stopped = subject.consumer.stop()
  await pass(100)
  await stopped
  expect(subject.ids).toEqual([])
  expect(source.settled).toMatchObject([{ id: 'a', how: 'retry', counted: false, delayMs: 0 }])
})

test('C22 messages that wait behind a message that goes back are returned one after the other, in their order', async () => {
  const source = new MemorySource({ ordersKeys: true, delays: true })
  source.isGenerous = true
  const returned: string[] = []
  const slowly = (delivery: Delivery): Delivery => {
    const retry = delivery.retry.bind(delivery)
    return Object.assign(delivery, {
      async retry(how: Parameters<Delivery['retry']>[0]) {
        returned.push(`${delivery.message.id} begins`)
        await after(10)
        await retry(how)
        returned.push(`${delivery.message.id} ends`)
      },
    })
  }
  withReceive(source, async (deliveries) => (await deliveries).map(slowly))
  for (const id of ['a1', 'a2', 'a3']) source.send(id, { key: 'a' })
  await ConsumerUnderTest.started(
    source,
    ({ id }, _context, run) => (id === 'a1' && run === 1 ? Promise.reject(new Error('down')) : undefined),
    { retry: { attempts: 10, delayMs: () => 5000 } },
  )
  await pass(100)
  expect(returned).toEqual(['a1', 'a2', 'a3'].flatMap((id) => [`${id} begins`, `${id} ends`]))
})

test('C26 while the messages of a batch that failed are handled one by one, no other batch begins beyond concurrency', async () => {
  const source = new MemorySource()
  for (const id of ['a', 'b', 'c', 'd']) source.send(id)
  let running = 0
  const most: number[] = []
  const inbox = inboxWith(() => Promise.reject(new Error('failed together')))
  const consumer = createConsumer({
    ...{ source, inbox, logger: false, batch: { maxSize: 2 }, concurrency: 1, prefetch: 4 },
    handler: async () => {
      most.push((running += 1))
      await after(10)
      running -= 1
    },
  })
  onTestFinished(() => void consumer.stop({ timeoutMs: 0 }))
  await consumer.start()
  await pass(25)
  expect(consumer.figures.running).toBe(1)
  await pass(100)
  expect(most).toEqual([1, 1, 1, 1])
  expect(source.left).toEqual([])
})

test('C25 when a suspect stops waiting for its key and begins to wait for an earlier suspect, the earlier one runs', async () => {
  const source = new MemorySource()
  source.send('a1', { key: 'a' })
  source.send('b', { isSuspect: true })
  source.send('a2', { key: 'a', isSuspect: true })
  const subject = await ConsumerUnderTest.started(source, () => after(10))
  await pass(100)
  expect(subject.ids).toEqual(['a1', 'b', 'a2'])
  expect(subject.mostRunning).toBe(1)
  expect(source.left).toEqual([])
})

test('C26 an inbox that throws before it returns a promise fails the batch, and the messages are handled one by one', async () => {
  const source = new MemorySource()
  for (const id of ['a', 'b']) source.send(id)
  const inbox = inboxWith(() => {
    throw new Error('broken')
  })
  const consumer = createConsumer({
    ...{ source, inbox, logger: false, batch: { maxSize: 2 } },
    handler: () => Promise.resolve(),
  })
  onTestFinished(() => void consumer.stop({ timeoutMs: 0 }))
  await consumer.start()
  await pass(100)
  expect(source.left).toEqual([])
  expect(consumer.figures).toEqual({ inHand: 0, running: 0, waiting: 0, retrying: 0 })
})

test('C21 a message that waits for its retry keeps its lease when the handler of its batch is given up', async () => {
  const source = new MemorySource({ leaseMs: 3000 })
  for (const id of ['a', 'b']) source.send(id)
  const lost: string[] = []
  const consumer = createConsumer({
    ...{ name: 'orders', logger: false, source, acknowledge: 'manual', batch: { maxSize: 2 } },
    ...{ handleTimeoutMs: 1000, retry: { attempts: 10, delayMs: () => 20_000 } },
    handler: (_messages, [first]) => first?.ack(1, new Error('later')),
  })
  consumer.on('lost', ({ message }) => void lost.push(message.id))
  onTestFinished(() => void consumer.stop({ timeoutMs: 0 }))
  await consumer.start()
  await pass(10_000)
  expect(consumer.figures.retrying).toBe(2)
  expect(lost).toEqual([])
})

test('C7 a message that was accepted is handled or dropped, also if its delivery is lost right before', async () => {
  for (let turns = 0; turns < 10; turns += 1) {
    const source = new MemorySource()
    source.send('a')
    const losing = (delivery: Delivery): Delivery => {
      const lost = new AbortController()
      const accept = delivery.accept.bind(delivery)
      const lose = async (): Promise<void> => {
        for (let n = 0; n < turns; n += 1) await Promise.resolve()
        lost.abort()
      }
      return Object.assign(delivery, {
        lost: lost.signal,
        async accept() {
          await accept()
          void lose()
        },
      })
    }
    withReceive(source, async (deliveries) => (await deliveries).map(losing))
    const subject = await ConsumerUnderTest.started(source, () => undefined, { delivery: 'at-most-once' })
    await pass(0)
    // If the delivery is lost before the answer, nobody knows whether the source has accepted the message.
    expect(subject.runs.length + subject.heard('dropped').length, `after ${turns} turns`).toBe(1)
    expect(subject.heard('lost')).toEqual([])
  }
})
