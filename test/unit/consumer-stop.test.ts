import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { DatabaseUnavailableError, type OpenSource } from '@txbox/core'
import { ConsumerUnderTest } from '../support/subjects/consumer-under-test.ts'
import { MemorySource } from '../support/subjects/memory-source.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)
const every = (ms: number, attempts = 10) => ({ attempts, delayMs: () => ms })
const after = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms))

test('C23 stop: running handlers may end, messages that have not begun go back at once and uncounted, and none becomes a dead letter', async () => {
  const source = new MemorySource()
  for (const id of ['a', 'b', 'c']) source.send(id)
  const subject = await ConsumerUnderTest.started(source, () => after(3000), { concurrency: 1, prefetch: 3 })
  await pass(0)
  const stopping = subject.consumer.stop({ timeoutMs: 10_000 })
  await pass(0)
  expect(source.settled).toMatchObject(
    ['b', 'c'].map((id) => ({ id, how: 'retry', counted: false, delayMs: 0 })),
  )
  await pass(3000)
  await stopping
  expect(source.how('a')).toEqual(['accept'])
  expect(subject.ids).toEqual(['a'])
  expect(source.left).toEqual(['b', 'c'])
  await expect(subject.consumer.stopped).resolves.toBeUndefined()
  await expect(subject.consumer.start()).rejects.toThrow(/has been stopped/)
})

test('C23 stop: shortly before the deadline the signals are aborted, and the remaining messages go back uncounted', async () => {
  const source = new MemorySource()
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => after(60_000))
  await pass(0)
  const stopping = subject.consumer.stop({ timeoutMs: 2000 })
  await pass(1499)
  expect(subject.runs[0]?.context.signal.aborted).toBe(false)
  await pass(1)
  expect(subject.runs[0]?.context.signal.aborted).toBe(true)
  await stopping
  expect(source.settled).toMatchObject([{ id: 'a', how: 'retry', counted: false }])
  expect(subject.heard('dead-lettered')).toEqual([])
})

test('C23 a delivery that waits for its retry goes back at stop, and its failure is counted', async () => {
  const source = new MemorySource()
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => Promise.reject(new Error('down')), {
    retry: every(10_000),
  })
  await pass(0)
  await subject.consumer.stop()
  expect(source.settled).toMatchObject([{ id: 'a', how: 'retry', counted: true }])
})

test('C23 after pause no handler begins and no message is received; resume continues', async () => {
  const source = new MemorySource()
  const subject = await ConsumerUnderTest.started(source, () => after(10), { concurrency: 1, prefetch: 2 })
  for (const id of ['a', 'b', 'c']) source.send(id)
  await pass(0)
  subject.consumer.pause()
  await pass(1000)
  expect(subject.ids).toEqual(['a'])
  expect(source.out, 'b was received before').toBe(1)
  subject.consumer.resume()
  await pass(1000)
  expect(subject.ids).toEqual(['a', 'b', 'c'])
})

test('C23 an idle consumer that is paused receives no message that is sent afterwards', async () => {
  const source = new MemorySource()
  const subject = await ConsumerUnderTest.started(source, () => undefined)
  await pass(0)
  subject.consumer.pause()
  source.send('a')
  await pass(1000)
  expect(source.out).toBe(0)
  expect(subject.consumer.figures.inHand).toBe(0)
  subject.consumer.resume()
  await pass(0)
  expect(subject.ids).toEqual(['a'])
})

test('C23 the signal stops the consumer', async () => {
  const source = new MemorySource()
  const stop = new AbortController()
  const subject = await ConsumerUnderTest.started(source, () => undefined, { signal: stop.signal })
  stop.abort()
  await pass(0)
  await subject.consumer.stopped
  source.send('a')
  await pass(1000)
  expect(subject.runs).toEqual([])
})

test('C24 source down: the consumer reports it, opens the source again after 0.1 to 3 s, and sends no settlement of the old connection', async () => {
  const source = new MemorySource()
  source.openFailures.push(...Array.from({ length: 12 }, () => new Error('refused')))
  const subject = await ConsumerUnderTest.started(source, () => undefined)
  expect(subject.heard('unavailable').length).toBe(1)
  await pass(300_000)
  const pauses = subject.heard('unavailable').map(({ retryInMs }) => retryInMs)
  expect(pauses.length).toBe(12)
  expect(Math.max(...pauses)).toBeLessThanOrEqual(3000)
  expect(pauses[0]).toBeLessThanOrEqual(100)
  expect(pauses[11]).toBeGreaterThanOrEqual(1500)
  source.send('a')
  await pass(0)
  expect(source.how('a')).toEqual(['accept'])
})

test('C24 database down: all messages wait for the same pause, no attempt is counted, and no message goes back', async () => {
  const source = new MemorySource()
  for (let n = 0; n < 10; n += 1) source.send(`m${n}`)
  let isDown = true
  const subject = await ConsumerUnderTest.started(
    source,
    () => (isDown ? Promise.reject(new DatabaseUnavailableError('down')) : undefined),
    { concurrency: 5, retry: every(0, 2) },
  )
  await pass(60_000)
  expect(subject.runs.length).toBeLessThan(400)
  expect(subject.heard('unavailable').length).toBeGreaterThan(3)
  expect(subject.heard('retried')).toEqual([])
  expect(source.settled).toEqual([])
  isDown = false
  await pass(30_000)
  expect(source.left).toEqual([])
  expect(subject.heard('handled').map(({ deliveries }) => deliveries)).toEqual(Array(10).fill(1))
})

test('C23 a later stop with a shorter time ends the earlier one; a longer time changes nothing', async () => {
  const source = new MemorySource()
  source.send('a')
  const subject = await ConsumerUnderTest.started(source, () => after(60_000))
  await pass(0)
  const first = subject.consumer.stop({ timeoutMs: 30_000 })
  await pass(1000)
  const second = subject.consumer.stop({ timeoutMs: 400 })
  const third = subject.consumer.stop({ timeoutMs: 60_000 })
  await pass(299)
  expect(subject.runs[0]?.context.signal.aborted).toBe(false)
  await pass(1)
  expect(subject.runs[0]?.context.signal.aborted).toBe(true)
  await Promise.all([first, second, third])
  expect(source.settled).toMatchObject([{ id: 'a', how: 'retry', counted: false }])
})

const NEVER = new Promise<never>(() => undefined)

/** Lets the source close in another way. */
function withClose(
  source: MemorySource,
  close: (signal: AbortSignal, inner: OpenSource) => Promise<void>,
): void {
  const open = source.open.bind(source)
  source.open = async (how) => {
    const inner = await open(how)
    return { ...inner, close: ({ signal } = {}) => close(signal!, inner) }
  }
}

/** A consumer with one message whose acceptance the silent source never answers. */
async function unanswered(source: MemorySource): Promise<ConsumerUnderTest> {
  source.send('a')
  source.onAccept = () => NEVER
  const subject = await ConsumerUnderTest.started(source, () => undefined)
  await pass(0)
  return subject
}

/** @returns how long the consumer takes to stop, in milliseconds. */
async function stopTime(subject: ConsumerUnderTest, timeoutMs: number): Promise<number> {
  const begunAt = performance.now()
  const stopped = subject.consumer.stop({ timeoutMs }).then(() => performance.now() - begunAt)
  await pass(timeoutMs + 10_000)
  return stopped
}

test.each([0, 500, 2000])(
  'C23 stop within %i ms keeps the time limit while the source is silent: it must disconnect, and its deliveries are lost',
  async (timeoutMs) => {
    const source = new MemorySource()
    withClose(source, async (signal, inner) => {
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve))
      return inner.close()
    })
    const subject = await unanswered(source)
    expect(await stopTime(subject, timeoutMs)).toBeLessThanOrEqual(timeoutMs + 100)
    expect(subject.heard('lost').map(({ message }) => message.id)).toEqual(['a'])
    expect(subject.heard('error')).toEqual([])
  },
)

test('C23 N1 stop keeps the time limit although the source does not close, and reports this', async () => {
  const source = new MemorySource()
  withClose(source, () => NEVER)
  const subject = await unanswered(source)
  expect(await stopTime(subject, 2000)).toBeLessThanOrEqual(2100)
  expect(subject.heard('error').map(({ error }) => String(error))).toEqual([
    expect.stringContaining(
      'memory orders did not close within the time limit of stop. Deliveries that it has not taken back: 1 (a).',
    ),
  ])
})

test('C23 a source may use the time that stop has left, until a later stop with a shorter time', async () => {
  const source = new MemorySource()
  let isCutOff = false
  withClose(source, async (signal, inner) => {
    await after(400)
    isCutOff = signal.aborted
    return inner.close()
  })
  const subject = await ConsumerUnderTest.started(source, () => undefined)
  expect(await stopTime(subject, 600)).toBe(400)
  expect(isCutOff).toBe(false)
  expect(subject.heard('error')).toEqual([])

  const other = new MemorySource()
  withClose(other, () => NEVER)
  const impatient = await ConsumerUnderTest.started(other, () => undefined)
  const first = stopTime(impatient, 60_000)
  const second = stopTime(impatient, 200)
  expect(await second).toBeLessThanOrEqual(300)
  await first
})
