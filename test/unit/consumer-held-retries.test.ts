import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { RetryLaterError, type PlainConsumerOptions, type SourceTraits } from '@txbox/consumer'
import { ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Lets everything happen that is due within this time. */
const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)
const every = (ms: number, attempts = 10) => ({ attempts, delayMs: () => ms })

/** A source that can keep messages for a time, and a consumer that fails the messages whose names begin with `bad`. */
async function failing(
  options: Partial<PlainConsumerOptions> & { traits?: Partial<SourceTraits>; postpones?: 'not now' } = {},
): Promise<{ source: MemorySource; subject: ConsumerUnderTest }> {
  const { traits = {}, postpones = 'yes', ...others } = options
  const source = new MemorySource(traits)
  source.postpones = postpones
  const subject = await ConsumerUnderTest.started(
    source,
    ({ id }) => (id.startsWith('bad') ? Promise.reject(new Error('always')) : undefined),
    { prefetch: 10, concurrency: 5, retry: every(20_000), ...others },
  )
  return { source, subject }
}

function send(source: MemorySource, names: readonly string[], { isKeyed = false } = {}): void {
  for (const name of names) source.send(name, isKeyed ? { key: `key of ${name}` } : {})
}

const bad = (count: number, from = 0): string[] => Array.from({ length: count }, (_, n) => `bad ${from + n}`)
const good = (count: number): string[] => Array.from({ length: count }, (_, n) => `good ${n}`)

test('C11 C18 held retries take half of the room, and further ones leave the consumer, so that others are handled', async () => {
  const { source, subject } = await failing()
  send(source, bad(5))
  await pass(0)
  expect(subject.consumer.figures).toEqual({ inHand: 5, running: 0, waiting: 0, retrying: 5 })
  send(source, [...bad(100, 5), ...good(20)])
  await pass(0)
  expect(subject.heard('handled').length).toBe(20)
  expect(source.out).toBeLessThanOrEqual(5)
  expect(source.settled.filter(({ how }) => how === 'postpone').length).toBeGreaterThanOrEqual(100)
  expect(source.settled.filter(({ how }) => how === 'retry')).toEqual([])
})

test('C11 a message that left the consumer is handled again after its delay, with the next number of its deliveries', async () => {
  const { source, subject } = await failing({ prefetch: 2, concurrency: 2, retry: every(20_000, 3) })
  send(source, bad(4))
  await pass(100_000)
  for (const id of bad(4)) {
    expect(subject.of(id).map(({ deliveries }) => deliveries)).toEqual([1, 2, 3])
    const [first, second] = subject.of(id)
    expect(second!.at - first!.at).toBeGreaterThanOrEqual(20_000)
  }
  expect(source.rejected.length).toBe(4)
})

test('C11 a delivery whose delay is longer than holdMs leaves at once, although there is room', async () => {
  const { source, subject } = await failing({ holdMs: 10_000 })
  send(source, bad(1))
  await pass(0)
  expect(source.settled).toEqual([
    { id: 'bad 0', how: 'postpone', delayMs: 20_000, counted: true, deliveries: 1 },
  ])
  expect(subject.consumer.figures.inHand).toBe(0)
})

test('C11 an uncounted retry that leaves counts no delivery', async () => {
  const source = new MemorySource()
  source.postpones = 'yes'
  source.send('a')
  const dedup = {
    begin: async () => ({ status: 'in-flight', retryAfterMs: 60_000 }) as const,
    complete: async () => 'completed' as const,
    release: async () => 'released' as const,
    extend: async () => 'extended' as const,
  }
  await ConsumerUnderTest.started(source, () => undefined, { dedup })
  await pass(0)
  expect(source.settled).toEqual([
    { id: 'a', how: 'postpone', delayMs: 60_000, counted: false, deliveries: 0 },
  ])
})

test('C22 a key keeps its order while its retry is held, and gives it up where held keys fill half of the room', async () => {
  const { source, subject } = await failing({ retry: every(2000, 3) })
  send(source, [...bad(5), ...bad(5).map((id) => `after ${id}`)], { isKeyed: true })
  await pass(0)
  expect(subject.heard('order-broken')).toEqual([])
  send(source, bad(3, 5), { isKeyed: true })
  await pass(0)
  expect(subject.heard('order-broken').map(({ key }) => key)).toEqual([5, 6, 7].map((n) => `key of bad ${n}`))
})

test('C22 a message without a key leaves before a key gives up its order', async () => {
  const { source, subject } = await failing()
  send(source, bad(5))
  await pass(1000)
  send(source, bad(3, 5), { isKeyed: true })
  await pass(0)
  expect(source.settled.map(({ id, how, delayMs }) => [id, how, delayMs])).toEqual(
    bad(3).map((id) => [id, 'postpone', 19_000]),
  )
  expect(subject.heard('order-broken')).toEqual([])
  expect(subject.consumer.figures.retrying).toBe(5)
})

test('C22 with a prefetch of less than 4, no key gives up its order for the room', async () => {
  const { source, subject } = await failing({ prefetch: 3, concurrency: 3 })
  send(source, bad(3), { isKeyed: true })
  await pass(0)
  expect(subject.consumer.figures.retrying).toBe(3)
  expect(subject.heard('order-broken')).toEqual([])
})

test('C22 no key gives up its order for a delay of a moment', async () => {
  const { source, subject } = await failing({ retry: every(100, 3) })
  send(source, bad(10), { isKeyed: true })
  await pass(1000)
  expect(subject.heard('order-broken')).toEqual([])
  expect(source.how('bad 9')).toEqual(['reject'])
})

test('C22 where one consumer at a time receives, a key never gives up its order: neither for the room nor after holdMs', async () => {
  const { source, subject } = await failing({
    traits: { isExclusive: true },
    retry: every(60_000, 2),
    holdMs: 1000,
  })
  for (const id of [...bad(10), ...good(1)]) source.send(id, { key: id })
  await pass(59_999)
  expect(source.settled).toEqual([])
  await pass(1)
  await pass(0)
  expect(subject.heard('order-broken')).toEqual([])
  expect(source.rejected.length).toBe(10)
  expect(source.how('good 0')).toEqual(['accept'])
})

test('C11 while the source cannot keep messages, the consumer holds them, also beyond half of the room', async () => {
  const { source, subject } = await failing({ postpones: 'not now' })
  send(source, bad(10))
  await pass(0)
  expect(subject.consumer.figures.retrying).toBe(10)
  await pass(19_999)
  expect(subject.runs.length).toBe(10)
  await pass(1)
  expect(subject.runs.length).toBe(20)
})

test('C11 a delivery that has to leave, but that the source cannot keep now, is handled again here after the rest of its delay', async () => {
  const { source, subject } = await failing()
  send(source, bad(5))
  await pass(1000)
  source.postpones = 'not now'
  send(source, bad(1, 5), { isKeyed: true })
  await pass(18_999)
  expect(subject.of('bad 0').length).toBe(1)
  await pass(1)
  expect(subject.of('bad 0').map(({ deliveries }) => deliveries)).toEqual([1, 2])
})

test('C23 a stop returns the deliveries that are held for a retry, and those that are leaving leave', async () => {
  const { source, subject } = await failing()
  send(source, bad(20))
  await pass(0)
  await subject.consumer.stop()
  expect(source.out).toBe(0)
  expect(source.left.length).toBe(20)
})

test('C11 RetryLaterError of a longer time than holdMs leaves, too', async () => {
  const source = new MemorySource()
  source.postpones = 'yes'
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, (_message, _context, run) => {
    if (run === 1) throw new RetryLaterError({ retryAfterMs: 3_600_000 })
  })
  await pass(3_599_999)
  expect(source.how('a')).toEqual(['postpone'])
  await pass(1)
  expect(subject.of('a').map(({ deliveries }) => deliveries)).toEqual([1, 2])
})
