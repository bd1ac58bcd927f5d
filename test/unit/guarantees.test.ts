import { globSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { ROTATIONS, isRotated } from '../support/tiers/rotated-files.ts'

const ROOT = path.join(import.meta.dirname, '../..')
const CODE = /\b[A-Z]\d{1,2}\b/g

function read(file: string): string {
  return readFileSync(path.join(ROOT, file), 'utf8')
}

/** The codes of the titles of a file's tests: also of titles that are put together, which begin with the codes. */
function provenBy(file: string): string[] {
  return [...read(file).matchAll(/['"`]((?:[A-Z]\d{1,2} )+)/g)].flatMap(([, codes]) =>
    codes!.trim().split(' '),
  )
}

/** The codes of the titles of all tests. */
const proven = new Set(globSync('test/**/*.test.ts', { cwd: ROOT }).flatMap(provenBy))

/** The codes in brackets, such as (Q1), or (F1 to F12) for all between. */
function codesOf(page: string): string[] {
  return [...read(page).matchAll(/\(([A-Z]\d{1,2}(?:(?:, | and | to )[A-Z]\d{1,2})*)\)/g)].flatMap(
    ([, codes]) => {
      const [first, last] = codes!.match(CODE)!
      if (!codes!.includes(' to ')) return codes!.match(CODE)!
      const [from, to] = [first, last].map((code) => Number(code!.slice(1))) as [number, number]
      return Array.from({ length: to - from + 1 }, (_, n) => first[0]! + String(from + n))
    },
  )
}

test.for(globSync('docs/*.md', { cwd: ROOT }))(
  'a test has the code of each rule of %s in its title',
  (page) => {
    expect([...new Set(codesOf(page))].filter((code) => !proven.has(code))).toEqual([])
  },
)

test('docs/guarantees.md has all rules of stored queues', () => {
  const codes = new Set(codesOf('docs/guarantees.md'))
  expect([...proven].filter((code) => code.startsWith('Q') && !codes.has(code))).toEqual([])
  expect(codes).toContain('Q21')
})

test.for(ROTATIONS)(
  'every rule of a file that the quick tier runs on one of $projects is proven on each of them by another file',
  ({ files, everyDatabase }) => {
    const others = globSync(everyDatabase, { cwd: ROOT }).filter((file) => !isRotated(file))
    const elsewhere = new Set(others.flatMap(provenBy))
    const rotated = globSync(files, { cwd: ROOT })
    expect(rotated).not.toEqual([])
    expect(rotated.flatMap(provenBy).filter((code) => !elsewhere.has(code))).toEqual([])
  },
)
