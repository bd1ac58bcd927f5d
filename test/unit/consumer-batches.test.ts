import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import {
  PermanentError,
  createConsumer,
  type BatchHandler,
  type BatchOptions,
  type PlainConsumerOptions,
  type RunsMessages,
} from '@txbox/consumer'
import { type ConsumerUnderTest, listen } from '../support/subjects/consumer-under-test.ts'
import { MemoryDedupStore } from '../support/subjects/memory-dedup-store.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const NEVER = new AbortController().signal
const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)

async function consume(
  source: MemorySource,
  handler: BatchHandler,
  options: Partial<PlainConsumerOptions> & { batch: BatchOptions },
) {
  const events: ConsumerUnderTest['events'] = []
  const consumer = createConsumer({ name: 'orders', logger: false, ...options, source, handler })
  listen(consumer, events)
  onTestFinished(() => void consumer.stop({ timeoutMs: 0 }))
  await consumer.start()
  return { consumer, events }
}

test('C26 a batch has up to maxSize messages, and starts after lingerMs at the latest', async () => {
  const source = new MemorySource()
  const batches: string[][] = []
  const handler: BatchHandler = (messages) => void batches.push(messages.map(({ id }) => id))
  await consume(source, handler, { batch: { maxSize: 3, lingerMs: 50 }, concurrency: 1 })
  for (const id of ['a', 'b', 'c', 'd']) source.send(id)
  await pass(49)
  expect(batches).toEqual([['a', 'b', 'c']])
  await pass(1)
  expect(batches).toEqual([['a', 'b', 'c'], ['d']])
  expect(source.left).toEqual([])
})

test('C3 C9 C26 a batch has no message that a dedup store knows, and only handled messages are marked', async () => {
  const source = new MemorySource()
  const dedup = new MemoryDedupStore()
  dedup.handled('known')
  for (const id of ['known', 'acked', 'failed']) source.send(id)
  const batches: string[][] = []
  const { events } = await consume(
    source,
    (messages, contexts) => {
      batches.push(messages.map(({ id }) => id))
      contexts[0]?.ack()
      contexts[1]?.ack(1, new Error('failed'))
    },
    { dedup, batch: { maxSize: 3, lingerMs: 10 }, retry: { attempts: 5, delayMs: () => 1000 } },
  )
  await pass(10)
  expect(batches).toEqual([['acked', 'failed']])
  expect([dedup.isHandled('acked'), dedup.isHandled('failed')]).toEqual([true, false])
  expect(source.how('known')).toEqual(['accept'])
  await pass(1000)
  await pass(10)
  expect(batches).toEqual([['acked', 'failed'], ['failed']])
  expect(dedup.isHandled('failed')).toBe(true)
  expect(events.filter(({ event }) => event === 'handled').map(({ id }) => id)).toEqual([
    'known',
    'acked',
    'failed',
  ])
})

test('C26 B12 at least once: each message is settled by its own ack; an error of the handler fails all messages without an ack', async () => {
  const source = new MemorySource()
  for (const id of ['acked', 'failed', 'left']) source.send(id)
  let calls = 0
  const { events } = await consume(
    source,
    (messages, contexts) => {
      calls += 1
      if (calls > 1) return
      expect(messages.length).toBe(3)
      contexts[0]?.ack()
      contexts[1]?.ack(1, new PermanentError('never'))
      throw new Error('broke')
    },
    { batch: { maxSize: 3, lingerMs: 10 }, retry: { attempts: 5, delayMs: () => 1000 } },
  )
  await pass(999)
  expect(source.how('acked')).toEqual(['accept'])
  expect(source.how('failed')).toEqual(['reject'])
  expect(source.how('left')).toEqual([])
  await pass(1000)
  expect(source.how('left')).toEqual(['accept'])
  expect(events.filter(({ event }) => event === 'retried').map(({ id }) => id)).toEqual(['left'])
})

test('C15 C26 B12 manual: the next batch begins after the handler has returned, and each message is settled by its own ack', async () => {
  const source = new MemorySource()
  for (let n = 0; n < 4; n += 1) source.send(`m${n}`)
  const acks: (() => void)[] = []
  const { consumer } = await consume(
    source,
    (_messages, contexts) =>
      void acks.push(
        ...contexts.map(
          ({ ack }) =>
            () =>
              ack(),
        ),
      ),
    { batch: { maxSize: 2 }, acknowledge: 'manual', concurrency: 1, prefetch: 4 },
  )
  await pass(1000)
  expect(acks.length).toBe(4)
  expect(source.settled).toEqual([])
  expect(consumer.figures.inHand).toBe(4)
  acks[3]?.()
  await pass(0)
  expect(source.settled).toEqual([{ id: 'm3', how: 'accept' }])
})

test('C22 C26 a batch has at most one message of a key, and keys stay in order', async () => {
  const source = new MemorySource()
  const batches: string[][] = []
  for (const id of ['a1', 'a2', 'b1', 'a3']) source.send(id, { key: id[0]! })
  await consume(source, (messages) => void batches.push(messages.map(({ id }) => id)), {
    batch: { maxSize: 10 },
  })
  await pass(100)
  expect(batches).toEqual([['a1', 'b1'], ['a2'], ['a3']])
})

test('C23 C26 stop: messages that wait for their batch go back', async () => {
  const source = new MemorySource()
  const { consumer } = await consume(source, () => undefined, { batch: { maxSize: 10, lingerMs: 5000 } })
  source.send('a')
  await pass(10)
  await consumer.stop()
  await pass(10_000)
  expect(source.settled).toMatchObject([{ id: 'a', how: 'retry', counted: false }])
})

test('C23 C26 stop: of a batch that failed, the messages whose turn has not come go back', async () => {
  const source = new MemorySource()
  const runs: string[] = []
  const inbox: RunsMessages<object> = {
    consumer: 'orders',
    async run(message, fn) {
      const context = { consumer: 'orders', key: message.id, idempotencyKey: '', attempt: 1, signal: NEVER }
      return { status: 'processed', key: message.id, result: await fn({}, message, context) }
    },
    runBatch: () => Promise.reject(new Error('failed together')),
  }
  const consumer = createConsumer({
    ...{ source, inbox, logger: false, batch: { maxSize: 3, lingerMs: 10 } },
    handler: async (_tx, messages) => {
      runs.push(...messages.map(({ id }) => id))
      await new Promise((resolve) => void setTimeout(resolve, 1000))
    },
  })
  await consumer.start()
  for (const id of ['a', 'b', 'c']) source.send(id)
  await pass(500)
  const stopping = consumer.stop()
  await pass(5000)
  await stopping
  expect(runs).toEqual(['a'])
  expect(source.how('a')).toEqual(['accept'])
  for (const id of ['b', 'c']) {
    expect(source.settled.filter((one) => one.id === id)).toMatchObject([{ how: 'retry', counted: false }])
  }
})

test('C1 an acceptance says that a redelivery would be recognized only with an inbox', async () => {
  const inbox: RunsMessages<object> = {
    consumer: 'orders',
    async run(message, fn) {
      const context = { consumer: 'orders', key: message.id, idempotencyKey: '', attempt: 1, signal: NEVER }
      return { status: 'processed', key: message.id, result: await fn({}, message, context) }
    },
    runBatch: () => Promise.reject(new Error('never called')),
  }
  const accepted: object[] = []
  for (const options of [{ inbox }, { name: 'orders' }]) {
    const source = new MemorySource()
    source.onAccept = (_id, { recorded }) => void accepted.push({ ...options, recorded })
    const consumer = createConsumer({ source, logger: false, handler: () => undefined, ...options } as never)
    await consumer.start()
    source.send('a')
    await pass(10)
    await consumer.stop()
  }
  expect(accepted).toEqual([
    { inbox, recorded: true },
    { name: 'orders', recorded: false },
  ])
})
