import { globSync } from 'node:fs'
import path from 'node:path'
import { expect, test, vi } from 'vitest'

const ROOT = path.join(import.meta.dirname, '../..')

/** The patterns of all projects of the tier `all`. */
async function projectPatterns(): Promise<{ include: string[]; exclude: string[] }> {
  vi.stubEnv('TXBOX_TEST_TIER', 'all')
  const { default: config } = await import('../../vitest.config.ts')
  vi.unstubAllEnvs()
  const projects = config.test!.projects!.map((project) => (project as { test: object }).test)
  const all = (name: 'include' | 'exclude'): string[] => [
    ...new Set(projects.flatMap((project) => (Reflect.get(project, name) as string[] | undefined) ?? [])),
  ]
  return { include: all('include'), exclude: all('exclude') }
}

/** One pattern for each name that a pattern lists. The optional `.rotated` of a name stays. */
function alternatives(pattern: string): string[] {
  const [, before, listed, after] = /^(.*)\{(?!,\.rotated\})([^{}]*)\}(.*)$/.exec(pattern) ?? []
  if (listed === undefined) return [pattern]
  return listed.split(',').flatMap((name) => alternatives(`${before}${name}${after}`))
}

const { include, exclude } = await projectPatterns()

test.for([...new Set([...include, ...exclude].flatMap(alternatives))])(
  'there is a test file %s',
  (pattern) => {
    expect(globSync(pattern, { cwd: ROOT })).not.toEqual([])
  },
)

test('every test file belongs to a project', () => {
  const files = globSync('test/**/*.test.ts', { cwd: ROOT, exclude: ['**/node_modules/**'] })
  expect(files.filter((file) => !include.some((pattern) => path.matchesGlob(file, pattern)))).toEqual([])
})
