import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type * as core from '@txbox/core/internal'

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const modulePath = import.meta.resolve('@txbox/core').replace(/index\.js$/, 'messages/uuid-v7.js')
let copies = 0

/** As a process of its own has it: it remembers the time of its last id. */
async function freshUuidV7(): Promise<typeof core.uuidV7> {
  copies += 1
  const { uuidV7 } = (await import(`${modulePath}?copy=${copies}`)) as typeof core
  return uuidV7
}

function timeOf(uuid: string): number {
  return Number.parseInt(uuid.replaceAll('-', '').slice(0, 12), 16)
}

test('it has the version and variant of a UUIDv7, and begins with the time in milliseconds', async () => {
  const property = fc.asyncProperty(fc.integer({ min: 1, max: 2 ** 48 - 1 }), async (now) => {
    const uuidV7 = await freshUuidV7()
    const uuid = uuidV7(now)
    expect(uuid).toMatch(UUID_V7)
    expect(timeOf(uuid)).toBe(now)
  })
  await fc.assert(property, { numRuns: 50 })
})

test('the default time is now', async () => {
  const uuidV7 = await freshUuidV7()
  const before = Date.now()
  const time = timeOf(uuidV7())
  expect(time).toBeGreaterThanOrEqual(before)
  expect(time).toBeLessThanOrEqual(Date.now())
})

test('the ids of one process sort in the order in which they were made, also when the clock goes back', async () => {
  const clock = fc.array(fc.integer({ min: 1_700_000_000_000, max: 1_700_000_000_050 }), {
    minLength: 1,
    maxLength: 200,
  })
  const property = fc.asyncProperty(clock, async (times) => {
    const uuidV7 = await freshUuidV7()
    const ids = times.map((now) => uuidV7(now))
    expect(ids.toSorted()).toEqual(ids)
  })
  await fc.assert(property, { numRuns: 50 })
})

test('many ids of one millisecond all differ, and stay in order beyond the range of the counter', async () => {
  const uuidV7 = await freshUuidV7()
  const ids = Array.from({ length: 20_000 }, () => uuidV7(1_700_000_000_000))
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.toSorted()).toEqual(ids)
  for (const id of ids) expect(id).toMatch(UUID_V7)
})
