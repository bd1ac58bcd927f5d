import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { textAddresses, textArray, textStamps } from '../../packages/postgres/src/integer-arrays.ts'
import { useTarget } from '../support/target.ts'

const target = useTarget()

const integer = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
const address = fc.record({ block: fc.nat({ max: 2 ** 32 - 1 }), offset: fc.nat({ max: 2 ** 16 - 1 }) })
const stamp = fc.integer({ min: Date.UTC(1700, 0, 1) * 1000, max: Date.UTC(2200, 0, 1) * 1000 })

test('the server reads numbers, addresses and instants from text as they are', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(integer),
      fc.array(address),
      fc.array(stamp),
      async (numbers, places, stamps) => {
        const addresses = places.map(({ block, offset }) => block * 2 ** 16 + offset)
        const [row] = await target.sql(
          `select ?::bigint[]::text as numbers, ?::tid[]::text[]::text as addresses,
            array(select (extract(epoch from at) * 1000000)::bigint from unnest(?::timestamptz[]) as at)::text as stamps`,
          [textArray(numbers), textAddresses(addresses), textStamps(stamps)],
        )
        expect(row).toEqual({
          numbers: `{${numbers.join(',')}}`,
          addresses: `{${places.map(({ block, offset }) => `"(${block},${offset})"`).join(',')}}`,
          stamps: `{${stamps.join(',')}}`,
        })
      },
    ),
    { seed: 4711, numRuns: 100 },
  )
})
