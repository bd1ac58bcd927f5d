import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { PermanentError, RetryLaterError, type Publisher } from '@txbox/consumer'
import type { OutboxMessage, PublishResult } from '@txbox/core'
import { encodeMessages } from '@txbox/core/internal'
import { ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)
const dies = (): never => {
  throw new PermanentError('no such order')
}
const refusal: PublishResult = {
  status: 'rejected',
  retryable: false,
  error: new PermanentError('It does not fit.'),
}

/** A publisher that refuses for good what `fits` refuses. */
class PickyPublisher implements Publisher {
  readonly messages: OutboxMessage[] = []
  readonly #fits: (message: OutboxMessage) => boolean

  constructor(fits: (message: OutboxMessage) => boolean) {
    this.#fits = fits
  }

  async publish([message]: readonly OutboxMessage[]): Promise<readonly PublishResult[]> {
    this.messages.push(message!)
    return [this.#fits(message!) ? { status: 'accepted' } : refusal]
  }
}

test('C10 the source keeps a message whose dead letter its publisher refuses for good, and an error names the message', async () => {
  const source = new MemorySource({ keepsRejected: true })
  const deadLetters = new PickyPublisher(() => false)
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, dies, { deadLetters })
  await pass(60_000)
  expect(deadLetters.messages.length).toBe(1)
  expect(source.rejected.map(({ id }) => id)).toEqual(['a'])
  expect(source.settled).toMatchObject([{ how: 'reject', error: { message: 'no such order' } }])
  expect(subject.heard('dead-lettered').length).toBe(1)
  expect(subject.heard('unavailable')).toEqual([])
  expect(subject.heard('error')).toMatchObject([
    {
      error: {
        message: expect.stringMatching(/message a was refused for good: It does not fit\. The source/),
      },
    },
  ])
})

test('C10 a publisher that throws a PermanentError refuses for good', async () => {
  const source = new MemorySource({ keepsRejected: true })
  const deadLetters = { publish: () => Promise.reject(new PermanentError('never')) }
  source.send('a')
  await ConsumerUnderTest.started(source, dies, { deadLetters })
  await pass(0)
  expect(source.settled).toMatchObject([{ how: 'reject' }])
})

test.each([
  ['an id', ({ id }: OutboxMessage) => id.length <= 100, []],
  ['a large header', ({ headers }: OutboxMessage) => !('large' in headers), ['key', 'header large']],
  ['a header', ({ headers }: OutboxMessage) => !('CC' in headers), ['header CC', 'header tenant']],
  [
    'a payload',
    ({ payload }: OutboxMessage) => payload.byteLength === 0,
    ['payload of 11 bytes', 'header CC'],
  ],
])(
  'C10 a reduced dead letter leaves out what its publisher refuses for good, and names it: %s',
  async (_, fits, left) => {
    const source = new MemorySource({ keepsRejected: false })
    const deadLetters = new PickyPublisher(fits)
    const id = 'ж'.repeat(128)
    source.send(id, {
      key: 'k',
      headers: { tenant: 'a', CC: 'b', large: 'x'.repeat(65_000) },
      payload: { n: 'abc' },
    })
    const subject = await ConsumerUnderTest.started(source, dies, { deadLetters })
    await pass(60_000)
    const letter = deadLetters.messages.at(-1)!
    expect(letter.id).not.toBe(id)
    expect(letter.headers).toMatchObject({
      'txbox-original-id': id,
      'txbox-error': expect.stringMatching(/^no such order \(PermanentError/),
      'txbox-deliveries': '1',
      'txbox-source': 'memory orders',
    })
    for (const part of left) expect(letter.headers['txbox-left-out']).toContain(part)
    if (left.length === 0) expect(letter.headers).toMatchObject({ tenant: 'a', CC: 'b' })
    if (!left.some((part) => part.startsWith('payload'))) expect(letter.json()).toEqual({ n: 'abc' })
    const again = { payload: 1, headers: letter.headers }
    expect(() => encodeMessages({ where: 'publish', topic: 't' }, [again])).not.toThrow()
    expect(source.settled).toEqual([{ id, how: 'accept' }])
    expect(subject.heard('dead-lettered').length).toBe(1)
    expect(subject.heard('error')).toMatchObject([
      { error: { message: expect.stringContaining(`A reduced dead letter with the id ${letter.id}`) } },
    ])
  },
)

test('C10 a message that can be kept nowhere is named by an error and stays unsettled until the stop, and the others are handled', async () => {
  const source = new MemorySource({ keepsRejected: false })
  const deadLetters = new PickyPublisher(() => false)
  const subject = await ConsumerUnderTest.started(source, ({ id }) => (id.startsWith('bad') ? dies() : 1), {
    deadLetters,
    concurrency: 10,
  })
  for (let n = 0; n < 9; n += 1) source.send(`bad${n}`, { key: `k${n}` })
  for (let n = 0; n < 100; n += 1) source.send(`good${n}`, { key: `k${n % 9}` })
  await pass(120_000)
  // The whole dead letter, and four reduced ones, once.
  expect(deadLetters.messages.length).toBe(9 * 5)
  expect(subject.runs.length).toBe(109)
  expect(subject.heard('handled').length).toBe(100)
  expect(subject.heard('dead-lettered')).toEqual([])
  expect(subject.heard('unavailable')).toEqual([])
  for (let n = 0; n < 9; n += 1) {
    expect(subject.heard('error', `bad${n}`)).toMatchObject([
      { error: { message: expect.stringContaining(`bad${n} was refused for good`) } },
    ])
  }
  expect(source.out).toBe(9)
  const stopping = subject.consumer.stop()
  await pass(0)
  await stopping
  // Closing the source returns the deliveries; none was given back, which a source would count.
  expect(source.settled.filter(({ id }) => id.startsWith('bad'))).toEqual([])
  expect(source.out).toBe(0)
  expect(source.left.length).toBe(9)
})

test('C10 C18 messages that can be kept nowhere have half of the room at most: then the consumer is unavailable', async () => {
  const source = new MemorySource({ keepsRejected: false })
  const deadLetters = new PickyPublisher(() => false)
  const subject = await ConsumerUnderTest.started(source, dies, {
    deadLetters,
    concurrency: 1,
    prefetch: 8,
  })
  for (let n = 0; n < 20; n += 1) source.send(`bad${n}`)
  await pass(120_000)
  // Half of the room, and the one whose handler had begun by then.
  expect(subject.runs.length).toBe(5)
  for (const event of subject.heard('unavailable')) {
    expect(event).toMatchObject({
      retryInMs: Infinity,
      error: { message: expect.stringMatching(/have half of the room/) },
    })
  }
  expect(subject.heard('unavailable').length).toBeGreaterThan(0)
  // The broker takes them back, so there is room again.
  source.cut()
  await pass(10_000)
  expect(subject.runs.length).toBe(10)
})

test('C10 a dead letter whose publisher never answers is reported after 30 s, and published again', async () => {
  const source = new MemorySource({ keepsRejected: false })
  const signals: AbortSignal[] = []
  const deadLetters: Publisher = {
    publish: (_messages, { signal }) => {
      signals.push(signal)
      return signals.length === 1 ? new Promise(() => undefined) : Promise.resolve([{ status: 'accepted' }])
    },
  }
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, dies, { deadLetters })
  await pass(29_999)
  expect(subject.heard('unavailable')).toEqual([])
  await pass(1)
  expect(subject.heard('unavailable')).toMatchObject([
    { error: { message: expect.stringContaining('has not answered within 30000 ms') } },
  ])
  expect(signals[0]!.reason).toMatchObject({ name: 'TimeoutError' })
  await pass(3000)
  expect(source.settled).toEqual([{ id: 'a', how: 'accept' }])
})

test('C10 a source that cannot keep a rejected message now is asked again; what it refuses for good stays until the stop', async () => {
  const source = new MemorySource({ keepsRejected: true })
  let calls = 0
  source.onReject = (id) => {
    calls += 1
    if (id === 'never') throw new PermanentError('too large')
    if (calls < 3) throw new RetryLaterError({ message: 'no queue' })
  }
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, dies)
  await pass(10_000)
  expect(source.settled).toMatchObject([{ id: 'a', how: 'reject' }])
  expect(subject.heard('unavailable').length).toBe(2)
  expect(subject.runs.length).toBe(1)
  source.send('never')
  await pass(60_000)
  expect(calls).toBe(4)
  expect(subject.heard('error', 'never')).toMatchObject([
    { error: { message: expect.stringContaining('too large') } },
  ])
  expect(source.out).toBe(1)
})

test('C10 C23 a refused reject is given back, uncounted, when the consumer stops', async () => {
  const source = new MemorySource({ keepsRejected: true })
  source.onReject = () => {
    throw new RetryLaterError({ message: 'no queue' })
  }
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, dies)
  await pass(5000)
  const stopping = subject.consumer.stop()
  await pass(10_000)
  await stopping
  expect(source.settled).toMatchObject([{ how: 'retry', counted: false }])
})
