import { getEventListeners } from 'node:events'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Deadline, pause, unlessAborted, within } from '@txbox/core/internal'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const HUNG = new Promise<never>(() => undefined)
const LATE = new Error('late')

function tooLate(): never {
  throw LATE
}

function listenersOf(signal: AbortSignal): number {
  return getEventListeners(signal, 'abort').length
}

/** Returns the errors of promises that nobody handles, while `act` runs and in the turn after it. */
async function unhandledDuring(act: () => Promise<void>): Promise<readonly unknown[]> {
  vi.useRealTimers()
  const others = process.listeners('unhandledRejection')
  const unhandled: unknown[] = []
  process.removeAllListeners('unhandledRejection')
  process.on('unhandledRejection', (error) => unhandled.push(error))
  try {
    await act()
    await new Promise(setImmediate)
    return unhandled
  } finally {
    process.removeAllListeners('unhandledRejection')
    for (const listener of others) process.on('unhandledRejection', listener)
  }
}

test('within: gives the result or the error of work that ends in time, and leaves no timer', async () => {
  expect(await within(Promise.resolve('done'), 1000, tooLate)).toBe('done')
  await expect(within(Promise.reject(new Error('failed')), 1000, tooLate)).rejects.toThrow('failed')
  expect(vi.getTimerCount()).toBe(0)
})

test('within: the end of hung work is what `late` returns or throws', async () => {
  const limits: number[] = []
  const results = Promise.allSettled([
    within(HUNG, 1000, (ms) => limits.push(ms)),
    within(HUNG, 1000, tooLate),
  ])
  await vi.advanceTimersByTimeAsync(999)
  expect(limits).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  expect(await results).toEqual([
    { status: 'fulfilled', value: 1 },
    { status: 'rejected', reason: LATE },
  ])
  expect(limits).toEqual([1000])
})

test('within: keeps the process alive unless `ref` is false', () => {
  vi.useRealTimers()
  const timers: NodeJS.Timeout[] = []
  const { setTimeout } = globalThis
  vi.spyOn(globalThis, 'setTimeout').mockImplementation(((end: () => void, ms: number) => {
    const timer = setTimeout(end, ms)
    timers.push(timer)
    return timer
  }) as never)
  void within(HUNG, 60_000, () => undefined)
  void within(HUNG, 60_000, () => undefined, { ref: false })
  vi.restoreAllMocks()
  expect(timers.map((timer) => timer.hasRef())).toEqual([true, false])
  for (const timer of timers) clearTimeout(timer)
})

test('unlessAborted: gives the result or the error of the work, and removes its listener', async () => {
  const { signal } = new AbortController()
  expect(await unlessAborted(Promise.resolve('done'), signal)).toBe('done')
  await expect(unlessAborted(Promise.reject(new Error('failed')), signal)).rejects.toThrow('failed')
  expect(listenersOf(signal)).toBe(0)
  expect(await unlessAborted(Promise.resolve('done'), undefined)).toBe('done')
})

test('unlessAborted: an abort ends the wait with its reason, before the call as well as after it', async () => {
  const controller = new AbortController()
  const { signal } = controller
  const waiting = unlessAborted(HUNG, signal)
  expect(listenersOf(signal)).toBe(1)
  controller.abort(LATE)
  await expect(waiting).rejects.toBe(LATE)
  await expect(unlessAborted(Promise.resolve('done'), signal)).rejects.toBe(LATE)
  expect(listenersOf(signal)).toBe(0)
})

test('unlessAborted: waits on for work that it may not leave', async () => {
  const controller = new AbortController()
  const work = Promise.withResolvers<string>()
  const mayLeave = vi.fn<() => boolean>(() => false)
  const waiting = unlessAborted(work.promise, controller.signal, mayLeave)
  expect(mayLeave).not.toHaveBeenCalled()
  controller.abort()
  work.resolve('done')
  expect(await waiting).toBe('done')
  expect(mayLeave).toHaveBeenCalledOnce()
})

test('pause: lasts its time, and no longer than until the abort', async () => {
  const controller = new AbortController()
  const { signal } = controller
  const ended: string[] = []
  void pause(1000).then(() => ended.push('without a signal'))
  void pause(1000, signal).then(() => ended.push('in full'))
  void pause(2000, signal).then(() => ended.push('cut short'))
  await vi.advanceTimersByTimeAsync(999)
  expect(ended).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  expect(ended).toEqual(['without a signal', 'in full'])
  controller.abort()
  await pause(1000, signal)
  expect(ended).toEqual(['without a signal', 'in full', 'cut short'])
  expect([vi.getTimerCount(), listenersOf(signal)]).toEqual([0, 0])
})

test('Deadline.clear: a later call leaves no timer that would keep the process alive', async () => {
  const deadline = new Deadline()
  deadline.within(1000)
  expect(await deadline.waitFor(Promise.resolve('done'))).toBe('done')
  deadline.clear()
  deadline.within(10)
  expect(vi.getTimerCount()).toBe(0)
  expect(await deadline.waitFor(Promise.resolve('again'))).toBe('again')
})

test('Deadline.waitFor: ends with the work, or with the deadline and its grace', async () => {
  const deadline = new Deadline()
  expect(await deadline.waitFor(Promise.resolve('done'))).toBe('done')
  await expect(deadline.waitFor(Promise.reject(new Error('failed')), 50)).rejects.toThrow('failed')
  const ended: string[] = []
  void deadline.waitFor(HUNG).then(() => ended.push('at the deadline'))
  void deadline.waitFor(HUNG, 50).then(() => ended.push('after the grace'))
  deadline.within(1000)
  await vi.advanceTimersByTimeAsync(999)
  expect(ended).toEqual([])
  await vi.advanceTimersByTimeAsync(1)
  expect(ended).toEqual(['at the deadline'])
  expect(vi.getTimerCount(), 'the grace of work that has not ended').toBe(1)
  await vi.advanceTimersByTimeAsync(50)
  expect(ended).toEqual(['at the deadline', 'after the grace'])
  expect(vi.getTimerCount()).toBe(0)
})

test('work that fails after nobody waits for it any more is no unhandled rejection', async () => {
  const unhandled = await unhandledDuring(async () => {
    const work = Promise.withResolvers<never>()
    const deadline = new Deadline()
    deadline.within(0)
    await Promise.allSettled([
      within(work.promise, 1, tooLate),
      unlessAborted(work.promise, AbortSignal.abort()),
      deadline.waitFor(work.promise),
      deadline.waitFor(work.promise, 1),
    ])
    work.reject(new Error('too late for anyone'))
  })
  expect(unhandled).toEqual([])
})
