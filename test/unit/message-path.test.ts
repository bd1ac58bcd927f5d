import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { linesOfFunction } from '../support/lines-of-function.ts'

const MOST_FILES = 18
const MOST_LINES = 1000

const root = path.resolve(import.meta.dirname, '../..')

interface Step {
  readonly file: string
  readonly functions: readonly string[]
  readonly lines: number
}

/** The rows of the tables in docs/architecture.md. */
function stepsOfPage(): readonly Step[] {
  const page = readFileSync(path.join(root, 'docs/architecture.md'), 'utf8')
  const [, section = ''] = page.split('### The files on the path of one message')
  return [...section.split('\n### ')[0]!.matchAll(/^\| `(\S+\.ts)`\s*\| (`.*`)\s*\|\s*(\d+) \|$/gm)].map(
    (row) => ({
      file: row[1]!,
      functions: row[2]!.split(', ').map((name) => name.slice(1, -1)),
      lines: Number(row[3]),
    }),
  )
}

test('every function that docs/architecture.md lists on the path of a message exists, with the number of lines listed', () => {
  const listed = stepsOfPage()
  const counted = listed.map(({ file, functions }) => {
    const source = readFileSync(path.join(root, 'packages', file), 'utf8')
    const lines = functions.reduce((sum, name) => sum + linesOfFunction(source, name), 0)
    return { file, functions, lines }
  })
  expect(listed).toEqual(counted)
})

test(`the path of a message has at most ${MOST_FILES} files and ${MOST_LINES} lines`, () => {
  const steps = stepsOfPage()
  const lines = steps.reduce((sum, step) => sum + step.lines, 0)
  const names = steps.flatMap(({ file, functions }) => functions.map((name) => `${file} ${name}`))
  expect(new Set(steps.map(({ file }) => file)).size).toBeLessThanOrEqual(MOST_FILES)
  expect(lines).toBeLessThanOrEqual(MOST_LINES)
  // A page without rows would pass, and a function that is listed twice is read once.
  expect(steps.length).toBeGreaterThan(MOST_FILES)
  expect(new Set(names).size).toBe(names.length)
})
