import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  binaryAddresses,
  binaryArray,
  textAddresses,
  textArray,
} from '../../packages/postgres/src/integer-arrays.ts'
import { useTarget } from '../support/target.ts'

const target = useTarget()

const integer = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
const address = fc.record({ block: fc.nat({ max: 2 ** 32 - 1 }), offset: fc.nat({ max: 2 ** 16 - 1 }) })

test('the server reads the same numbers and addresses from text and from binary', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(integer), fc.array(address), async (numbers, places) => {
      const addresses = places.map(({ block, offset }) => block * 2 ** 16 + offset)
      const [row] = await target.sql(
        'select ?::bigint[]::text as a, ?::bigint[]::text as b, ?::tid[]::text[]::text as c, ?::tid[]::text[]::text as d',
        [textArray(numbers), binaryArray(numbers), textAddresses(addresses), binaryAddresses(addresses)],
      )
      const expected = {
        numbers: `{${numbers.join(',')}}`,
        addresses: `{${places.map(({ block, offset }) => `"(${block},${offset})"`).join(',')}}`,
      }
      expect(row).toEqual({
        a: expected.numbers,
        b: expected.numbers,
        c: expected.addresses,
        d: expected.addresses,
      })
    }),
    { seed: 4711, numRuns: 100 },
  )
})
