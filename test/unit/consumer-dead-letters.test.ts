import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { PermanentError, createConsumer, type Publisher } from '@txbox/consumer'
import type { OutboxMessage, PublishResult } from '@txbox/core'
import { ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)

class RecordingPublisher implements Publisher {
  readonly messages: OutboxMessage[] = []
  answer: (n: number) => PublishResult | Promise<PublishResult> = () => ({ status: 'accepted' })

  async publish(messages: readonly OutboxMessage[]): Promise<readonly PublishResult[]> {
    this.messages.push(...messages)
    return [await this.answer(this.messages.length)]
  }
}

test('C10 a dead letter is published with headers, and the delivery accepted only after the confirm', async () => {
  const source = new MemorySource({ keepsRejected: false })
  const deadLetters = new RecordingPublisher()
  const confirmed = Promise.withResolvers<PublishResult>()
  deadLetters.answer = () => confirmed.promise
  source.send('a', { key: 'k', payload: { total: 7 } })
  const subject = await ConsumerUnderTest.started(
    source,
    () => Promise.reject(new PermanentError('no such order')),
    { deadLetters },
  )
  await pass(60_000)
  expect(source.settled).toEqual([])
  confirmed.resolve({ status: 'accepted' })
  await pass(0)
  expect(source.settled).toEqual([{ id: 'a', how: 'accept' }])
  const [letter] = deadLetters.messages
  expect(letter).toMatchObject({
    id: 'a',
    topic: 'orders.dead-letters',
    key: 'k',
    contentType: 'application/json',
  })
  expect(letter?.json()).toEqual({ total: 7 })
  expect(letter?.headers).toEqual({
    'txbox-error': expect.stringMatching(
      /^no such order \(PermanentError at .*consumer-dead-letters\.test\.ts:\d+:\d+\)\)$/,
    ),
    'txbox-deliveries': '1',
    'txbox-source': 'memory orders',
  })
  expect(subject.heard('dead-lettered').length).toBe(1)
})

test('C10 a publisher that fails or refuses: the delivery is not accepted, and the dead letter is published again', async () => {
  const source = new MemorySource({ keepsRejected: false })
  const deadLetters = new RecordingPublisher()
  deadLetters.answer = (n) => {
    if (n === 1) throw new Error('no connection')
    if (n === 2) return { status: 'rejected', error: new Error('no queue'), retryable: true }
    return { status: 'accepted' }
  }
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => Promise.reject(new PermanentError('never')), {
    deadLetters,
  })
  await pass(0)
  expect(source.settled).toEqual([])
  await pass(1000)
  expect(source.settled).toEqual([{ id: 'a', how: 'accept' }])
  expect(subject.runs.length).toBe(1)
  expect(subject.heard('unavailable').length).toBe(2)
})

test('C10 a publisher that resolves to anything else has not accepted the dead letter, and no message is forgotten', async () => {
  const wrong = [undefined, null, 'accepted', {}, [], [null], ['accepted']]
  for (const undecodable of [undefined, new Error('no JSON')]) {
    const source = new MemorySource({ keepsRejected: false })
    const answers = [...wrong, [{ status: 'accepted' }]]
    source.send('a', { undecodable })
    const subject = await ConsumerUnderTest.started(
      source,
      () => Promise.reject(new PermanentError('never')),
      {
        deadLetters: { publish: async () => answers.shift() as never },
      },
    )
    await pass(60_000)
    expect(answers).toEqual([])
    expect(source.settled).toEqual([{ id: 'a', how: 'accept' }])
    expect(subject.heard('unavailable').length).toBe(wrong.length)
    expect(subject.heard('error')).toEqual([])
  }
})

test('C10 C23 at stop a message whose dead letter was not accepted goes back, uncounted', async () => {
  const source = new MemorySource({ keepsRejected: false })
  const deadLetters = new RecordingPublisher()
  deadLetters.answer = () => Promise.reject(new Error('no connection'))
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => Promise.reject(new PermanentError('never')), {
    deadLetters,
  })
  await pass(5000)
  const stopping = subject.consumer.stop()
  await pass(10_000)
  await stopping
  expect(source.settled).toMatchObject([{ how: 'retry', counted: false }])
  expect(subject.heard('dead-lettered')).toEqual([])
})

test('C10 deadLetters is required if the source keeps no rejected messages', () => {
  const source = new MemorySource({ keepsRejected: false })
  const options = { source, name: 'orders', handler: () => undefined }
  expect(() => createConsumer(options)).toThrow(/deadLetters/)
  expect(() => createConsumer({ ...options, delivery: 'at-most-once' })).not.toThrow()
})

test('options that exclude each other are refused at creation', () => {
  const source = new MemorySource()
  const options = { source, name: 'orders', handler: () => undefined }
  for (const wrong of [
    { concurrency: 0 },
    { concurrency: 20, prefetch: 19 },
    { holdMs: 900_001 },
    { handleTimeoutMs: 99 },
    { acknowledge: 'manual', delivery: 'at-most-once' },
    { guard: async () => 'apply' },
    { inbox: { consumer: 'x' } },
    { database: {} },
    { name: '' },
    { batch: { maxSize: 0 } },
    { misspelt: 1 },
  ]) {
    expect(() => createConsumer({ ...options, ...wrong } as never), JSON.stringify(wrong)).toThrow(
      /createConsumer/,
    )
  }
  const limited = new MemorySource({ maxDeliveries: 3 })
  const retry = { attempts: 4, delayMs: () => 0 }
  expect(() => createConsumer({ ...options, source: limited, retry })).toThrow(/1 to 3 attempts/)
})

test('C10 a retry policy that throws, or a publisher that throws at once, does not keep a delivery forever', async () => {
  const source = new MemorySource({ keepsRejected: false })
  let calls = 0
  const deadLetters: Publisher = {
    publish() {
      calls += 1
      if (calls === 1) throw new Error('broken publisher')
      return Promise.resolve([{ status: 'accepted' }])
    },
  }
  const retry = {
    attempts: 2,
    delayMs: () => {
      throw new Error('broken policy')
    },
  }
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => Promise.reject(new Error('down')), {
    deadLetters,
    retry,
  })
  await pass(5000)
  expect(subject.heard('error').map(({ error }) => error)).toMatchObject([
    { code: 'TXBOX_INVALID_OPTION', cause: { message: 'broken policy' } },
  ])
  expect(source.left).toEqual([])
  expect(calls).toBe(2)
})

test.for([true, false])(
  'C6 C10 a message that fails for good after its delivery was lost becomes a dead letter once, when it is delivered again (kept by the source: %s)',
  async (keepsRejected) => {
    const source = new MemorySource({ keepsRejected })
    source.send('a')
    const publisher = new RecordingPublisher()
    const failing = Promise.withResolvers<never>()
    failing.promise.catch(() => undefined)
    const subject = await ConsumerUnderTest.started(
      source,
      (_message, _context, run) => {
        if (run === 1) return failing.promise
        throw new PermanentError('never')
      },
      { ...(keepsRejected ? {} : { deadLetters: publisher }) },
    )
    await pass(0)
    source.cut()
    await pass(0)
    failing.reject(new PermanentError('never'))
    await pass(0)
    expect(subject.heard('dead-lettered')).toEqual([])
    expect(publisher.messages).toEqual([])
    await pass(10_000)
    expect(subject.heard('dead-lettered').length).toBe(1)
    expect((keepsRejected ? source.rejected : publisher.messages).map(({ id }) => id)).toEqual(['a'])
    expect(source.left).toEqual([])
  },
)
