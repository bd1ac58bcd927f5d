import { expect, test } from 'vitest'
import { withIntegers } from '../../packages/postgres/src/relay-statements.ts'

test('integers replace parameters, and nothing else is replaced', () => {
  const text = `select '$2' from "a$1""$2".outbox where n = $1 limit $2`
  expect(withIntegers(text, [7, 2n ** 62n])).toBe(
    `select '${2n ** 62n}' from "a$1""$2".outbox where n = 7 limit ${2n ** 62n}`,
  )
  for (const wrong of [1.5, Number.NaN, 2 ** 53, '1; drop table x' as unknown as number]) {
    expect(() => withIntegers(text, [wrong, 1])).toThrow(RangeError)
  }
  expect(() => withIntegers(text, [1])).toThrow(RangeError)
})
