import { expect, test } from 'vitest'
import { LocalScans } from '../../packages/postgres/src/local/local-scans.ts'

const AT = { consumer: 'billing', shard: 3 }

function scanning(last: () => bigint) {
  let lookups = 0
  const scans = new LocalScans(async () => {
    lookups += 1
    return { last: last(), open: [] }
  })
  /** A read behind a cursor, as a consumer reads on while its handlers run. */
  const read = async (found: bigint, isCut = false): Promise<bigint | undefined> => {
    const scan = await scans.begin(AT, 1n)
    return scans.end(scan, { first: found, last: found, isWhole: false, isCut })
  }
  return { scans, read, lookups: () => lookups }
}

test('O12 open writers are looked up once for a thousand deleted rows, also while no read begins at the start', async () => {
  const { scans, read, lookups } = scanning(() => 1_000_000n)
  for (let n = 0; n < 100; n++) {
    await read(BigInt(n + 2))
    scans.deleted(AT, 100)
  }
  expect(lookups()).toBe(10)
})

test('O12 behind a number that is not settled, open writers are looked up before the next read', async () => {
  let last = 100n
  const { read, lookups } = scanning(() => last)
  expect(await read(50n)).toBe(100n)
  expect(await read(150n, true)).toBe(100n)
  last = 200n
  expect(lookups()).toBe(1)
  expect(await read(150n, true)).toBe(150n)
  expect(lookups()).toBe(2)
})
