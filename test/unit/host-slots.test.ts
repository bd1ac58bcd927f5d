import { describe, expect, test } from 'vitest'
import { HostSlots, Slots } from '../../packages/webhook/src/publish/slots.ts'

const never = new AbortController().signal

/** Work that holds its slot until it is ended. */
function holding(): { work: () => Promise<string>; end: () => void } {
  const { promise, resolve } = Promise.withResolvers<string>()
  return { work: () => promise, end: () => resolve('done') }
}

describe('slots of hosts', () => {
  test('W9 work that waits for its host longer than it may is not begun, and leaves the queue', async () => {
    const slots = new HostSlots({ concurrency: 10, perHost: 1, waitMs: 20 })
    const first = holding()
    const running = slots.run('a', never, first.work)
    let begun = 0
    const begin = async (): Promise<number> => (begun += 1)
    expect(await slots.run('a', never, begin)).toBe('busy')
    // Another host has slots of its own.
    expect(await slots.run('b', never, begin)).toBe(1)
    first.end()
    expect(await running).toBe('done')
    expect(await slots.run('a', never, begin)).toBe(2)
    expect(begun).toBe(2)
  })

  test('W9 without a limit, work waits for as long as its host is busy', async () => {
    const slots = new HostSlots({ concurrency: 10, perHost: 1, waitMs: Infinity })
    const first = holding()
    const running = slots.run('a', never, first.work)
    const second = slots.run('a', never, async () => 'second')
    first.end()
    expect(await Promise.all([running, second])).toEqual(['done', 'second'])
  })

  test('W9 work that is aborted while it waits throws the reason, and its slot goes to the next', async () => {
    const slots = new HostSlots({ concurrency: 10, perHost: 1, waitMs: 60_000 })
    const first = holding()
    const running = slots.run('a', never, first.work)
    const abort = new AbortController()
    const second = slots.run('a', abort.signal, async () => 'second')
    const third = slots.run('a', never, async () => 'third')
    const reason = new Error('stop now')
    abort.abort(reason)
    await expect(second).rejects.toBe(reason)
    first.end()
    expect(await Promise.all([running, third])).toEqual(['done', 'third'])
  })

  test('slots are idle when nothing holds one', async () => {
    const slots = new Slots(2)
    expect(slots.isIdle).toBe(true)
    expect(await slots.acquire(never)).toBe(true)
    expect(slots.isIdle).toBe(false)
    slots.release()
    expect(slots.isIdle).toBe(true)
  })
})
