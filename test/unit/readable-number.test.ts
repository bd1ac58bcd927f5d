import { expect, test } from 'vitest'
import { readableNumber } from '@txbox/core/internal'

test.each([0, 7, 999, 1000, 12_345, 999_999, 1_000_000, 9_007_199_254_740_991, -1, -999, -1000, -1_234_567])(
  'the number %d is written as in English',
  (value) => {
    expect(readableNumber(value)).toBe(value.toLocaleString('en'))
  },
)
