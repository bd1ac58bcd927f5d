import { expect, test } from 'vitest'
import { uncoveredStatements } from '../../scripts/uncovered-statements.mjs'

const GOLDEN = 'test/unit/golden-sql.test.ts'

const uncovered = (imports: Record<string, readonly string[]>, source: string): readonly string[] =>
  uncoveredStatements(new Map(Object.entries(imports)), new Map([[GOLDEN, source]]))

test('a statement file that no golden test imports is not covered', () => {
  const imports = { 'packages/a/src/x-statements.ts': [], 'packages/a/src/y-statements.ts': [] }
  expect(uncovered(imports, "import { x } from '../../packages/a/src/x-statements.ts'")).toEqual([
    'packages/a/src/y-statements.ts',
  ])
})

test('statement files are covered through other statement files, and not through any other file', () => {
  const imports = {
    'packages/a/src/x-statements.ts': ['packages/a/src/y-statements.ts', 'packages/a/src/names.ts'],
    'packages/a/src/y-statements.ts': [],
    'packages/a/src/names.ts': ['packages/a/src/z-statements.ts'],
    'packages/a/src/z-statements.ts': [],
  }
  const source =
    "import * as x from '../../packages/a/src/x-statements.ts'\nimport { n } from '../../packages/a/src/names.ts'"
  expect(uncovered(imports, source)).toEqual(['packages/a/src/z-statements.ts'])
})

test('a golden test that imports a package covers the statement files that the package uses', () => {
  const imports = {
    'packages/a/src/index.ts': ['packages/a/src/dialect.ts'],
    'packages/a/src/dialect.ts': ['packages/a/src/x-statements.ts'],
    'packages/a/src/x-statements.ts': [],
    'packages/a/src/unused-statements.ts': [],
    'packages/b/src/x-statements.ts': [],
  }
  expect(uncovered(imports, "import { apply } from '@txbox/a'")).toEqual([
    'packages/a/src/unused-statements.ts',
    'packages/b/src/x-statements.ts',
  ])
})
