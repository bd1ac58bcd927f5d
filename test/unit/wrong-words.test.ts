import { expect, test } from 'vitest'
import { wrongWords } from '../../scripts/wrong-words.mjs'

const words = (file: string, text: string): string[] => wrongWords(file, text).map(({ word }) => word)

test('wrong words in comments are found, and code is not examined', () => {
  const source = [
    '/** Reads it anew. */',
    "const title = 'anew'",
    ['run()', 'mends it'].join(' // '),
    '   * under way',
    '/** → the id */',
  ]
  expect(words('a.ts', source.join('\n'))).toEqual(['anew', 'mends', 'under way', '/** →'])
})

test('wrong words in the prose of a page are found, and code blocks are not examined', () => {
  expect(words('a.md', 'Whoever waits\nfor somebody.\n\n```ts\nanew()\n```\n\nIt waits for ever.')).toEqual([
    'Whoever',
    'somebody',
    'for ever',
  ])
})

test('arrows in examples, and words that only look alike, are allowed', () => {
  expect(words('a.ts', '// 1 → 2\n/** Amendments, dear reader. */')).toEqual([])
})

test('wrong words in titles of tests are found, and other texts of tests are not examined', () => {
  const source = [
    "test('it comes again', () => {",
    "    'a message on loan',",
    "describe.each([1])('in hand %s', () => {",
    '  test(`it hears of ${name}`, async () => {',
    "  await run('anew', 1)",
  ]
  expect(words('a.test.ts', source.join('\n'))).toEqual(['comes again', 'on loan', 'in hand', 'hears of'])
  expect(words('a.ts', source.join('\n'))).toEqual([])
})

test('wrong words in forms are found', () => {
  expect(words('bug.yml', 'description: A hole for somebody')).toEqual(['somebody'])
})
