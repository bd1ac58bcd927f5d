import { expect, test } from 'vitest'
import { InvalidOptionError } from '@txbox/core'
import { mysql } from '@txbox/mysql'
import { tablesOf } from '../../packages/mysql/src/connection/identifiers.ts'

test.for([
  ['an emoji, which names of tables cannot hold', '\u{1F4E6}_'],
  ['another character beyond the first 65 536', 'a\u{10348}'],
  ['half of such a character', 'a\ud800'],
  ['a question mark', 'a?'],
  ['a NUL', 'a\0'],
  ['a line break', 'a\n'],
  ['DEL', 'a\u007f'],
  ['52 characters', 'x'.repeat(52)],
  ['nothing', ''],
  ['the end of another prefix whose tables for local consumers have the same names', 'txbox_local_'],
  ['the same end in capitals, which servers may not distinguish', 'txbox_LOCAL_'],
  ['the end of another prefix whose table of dedup leases has the same name', 'txbox_dedup_'],
  ['a number', 7],
] as const)('a prefix with %s is an InvalidOptionError', ([, prefix]) => {
  expect(() => mysql({ prefix: prefix as string })).toThrow(InvalidOptionError)
})

test('a prefix may hold letters of any language, capitals, spaces, hyphens and backticks', () => {
  expect(tablesOf('mysql', 'Zürich-東京 `7` ').inbox).toBe('`Zürich-東京 ``7`` inbox`')
  expect(tablesOf('mysql', 'x'.repeat(51)).prefix).toBe('x'.repeat(51))
})
