import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { binaryRows, textRows } from '../../packages/postgres/src/connection/integer-arrays.ts'
import { useTarget } from '../support/engines/target.ts'

const target = useTarget()

const seq = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
const stamp = fc.integer({ min: Date.UTC(1700, 0, 1) * 1000, max: Date.UTC(2200, 0, 1) * 1000 })
const row = fc.record({ seq, stamp })
const address = fc.record({ block: fc.nat({ max: 2 ** 32 - 1 }), offset: fc.nat({ max: 2 ** 16 - 1 }) })

test.for([
  ['text', textRows],
  ['binary', binaryRows],
] as const)('the server reads numbers, addresses and instants from %s as they are', async ([, toRows]) => {
  await fc.assert(
    fc.asyncProperty(fc.array(row), fc.array(address), async (rows, places) => {
      const addresses = places.map(({ block, offset }) => block * 2 ** 16 + offset)
      const [read] = await target.sql(
        `select ?::bigint[]::text as numbers, ?::tid[]::text[]::text as addresses,
          array(select (extract(epoch from at) * 1000000)::bigint from unnest(?::timestamptz[]) as at)::text as stamps`,
        toRows(rows, addresses),
      )
      expect(read).toEqual({
        numbers: `{${rows.map((one) => one.seq).join(',')}}`,
        addresses: `{${places.map(({ block, offset }) => `"(${block},${offset})"`).join(',')}}`,
        stamps: `{${rows.map((one) => one.stamp).join(',')}}`,
      })
    }),
    { seed: 4711, numRuns: 100 },
  )
})
