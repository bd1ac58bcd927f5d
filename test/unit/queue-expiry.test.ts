import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Delivery } from '@txbox/core'
import { OpenQueue } from '../../packages/queue/src/open-queue.ts'
import type { StoredQueue } from '../../packages/queue/src/stored-queue.ts'
import { WakeUpCall } from '../../packages/queue/src/wake-up-call.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const TIMEOUT_MS = 30_000
const NEVER = new AbortController().signal
const pass = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms)

/** An open queue on a database that has one message for each receive, and takes `lookMs` to find it. */
class OpenQueueUnderTest {
  lookMs = 0
  hasEndedGauges = false
  givesBack = async (): Promise<boolean> => true
  readonly #open: OpenQueue<unknown, unknown>
  #received = 0

  constructor() {
    const stored = {
      settings: { name: 'mail', visibilityTimeoutMs: TIMEOUT_MS },
      wakeUpCall: new WakeUpCall(undefined, () => undefined),
      observe: () => async () => void (this.hasEndedGauges = true),
      look: () => this.#look(),
      extend: async () => true,
      settle: async () => true,
      store: { giveBack: () => this.givesBack() },
    }
    const settings = { prefetch: 10, pollIntervals: { min: 20, max: 500 }, deadLettered: undefined }
    this.#open = new OpenQueue(stored as unknown as StoredQueue<unknown, unknown>, settings)
  }

  async receive(): Promise<Delivery> {
    const [delivery] = await this.#open.receive(1, { signal: NEVER })
    return delivery!
  }

  close(): Promise<void> {
    return this.#open.close()
  }

  async #look(): Promise<readonly object[]> {
    this.#received += 1
    const id = `m${this.#received}`
    if (this.lookMs > 0) await new Promise((resolve) => void setTimeout(resolve, this.lookMs))
    return [{ id, headers: {}, payload: new Uint8Array(), undecodable: 'empty', suspect: false, receives: 1 }]
  }
}

test('Q4 each delivery is lost when its visibility timeout ends, unless it was extended; one timer serves all', async () => {
  const queue = new OpenQueueUnderTest()
  const first = await queue.receive()
  await pass(10_000)
  const second = await queue.receive()
  expect(vi.getTimerCount()).toBe(1)
  await pass(15_000)
  await first.extend?.(TIMEOUT_MS)
  await pass(14_999)
  expect([first, second].map(({ lost }) => lost.aborted)).toEqual([false, false])
  await pass(1)
  expect([first, second].map(({ lost }) => lost.aborted)).toEqual([false, true])
  await pass(14_999)
  expect(first.lost.aborted).toBe(false)
  await pass(1)
  expect(first.lost.aborted).toBe(true)
  expect(vi.getTimerCount()).toBe(0)
})

test('Q4 a delivery whose receive took long is lost when its timeout ends, although the others were extended meanwhile', async () => {
  const queue = new OpenQueueUnderTest()
  const first = await queue.receive()
  await pass(20_000)
  queue.lookMs = 15_000
  const receiving = queue.receive()
  await pass(8000)
  await first.extend?.(TIMEOUT_MS)
  await pass(7000)
  // Looked at 20 s, received at 35 s. The first delivery has been extended to 58 s.
  const late = await receiving
  await pass(14_999)
  expect(late.lost.aborted).toBe(false)
  await pass(1)
  expect([first, late].map(({ lost }) => lost.aborted)).toEqual([false, true])
})

test('Q4 a delivery whose lease was made shorter is lost when that has ended', async () => {
  const queue = new OpenQueueUnderTest()
  const delivery = await queue.receive()
  await delivery.extend?.(1000)
  await pass(999)
  expect(delivery.lost.aborted).toBe(false)
  await pass(1)
  expect(delivery.lost.aborted).toBe(true)
})

test('Q9 a delivery that was settled in time is not lost, and no timer follows', async () => {
  const queue = new OpenQueueUnderTest()
  const delivery = await queue.receive()
  await delivery.accept()
  await pass(TIMEOUT_MS)
  expect(delivery.lost.aborted).toBe(false)
  expect(vi.getTimerCount()).toBe(0)
})

test('a queue whose deliveries cannot be given back ends its gauges and its timer nevertheless', async () => {
  const queue = new OpenQueueUnderTest()
  await queue.receive()
  queue.givesBack = async () => {
    throw new Error('the database is away')
  }
  await expect(queue.close()).rejects.toThrow('the database is away')
  expect(queue.hasEndedGauges).toBe(true)
  expect(vi.getTimerCount()).toBe(0)
})
