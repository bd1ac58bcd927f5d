import { readFileSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { sqlInStrings } from '../../scripts/sql-in-strings.mjs'

const find = (source: string): readonly string[] => sqlInStrings('a.ts', source).map(({ text }) => text)

test.each([
  "await run('select number from t')",
  'await run(`\nselect cast(@@autocommit as char)`)',
  "const text = 'insert into t values (1)'",
  "const text = 'update t set a = 1'",
  'const text = `delete from ${table}`',
  "await query('COMMIT')",
  "await query('begin')",
  'await query(`SAVEPOINT ${name}`)',
  "await query('set session autocommit = 1')",
  'await query(`listen "${channel}"`)',
  'await query(`kill ${id}`)',
  "await query('show full processlist')",
  "const all = branches.join('\\nunion all')",
  "const text = read + '\\nlock in share mode'",
  "const text = read + ' for update'",
  "const condition = ' where id = '",
  "const value = 'pg_catalog.now()'",
  'const value = sql`count(*)`',
  'const value = sql<string>`cast(${value} as text)`',
  'const value = `${column}::bigint`',
])('SQL is found in: %s', (source) => {
  expect(find(source)).toHaveLength(1)
})

test.each([
  "throw new Error('Select the messages with --id, or begin with --all.')",
  "throw new Error('The savepoint from before the claim is gone. Set max: 6.')",
  "throw new Error('Create them as the files do. Drop what is invalid, and update txbox.')",
  "throw new Error('COMMIT was answered by a rollback.')",
  "const wait: 'no key update' | 'update' = strength === 'update' ? 'update' : 'no key update'",
  "import { a } from './select.ts'",
  'const value = sql`${value}`',
  "// select 1 from t\nconst a = 'b'",
])('no SQL is found in: %s', (source) => {
  expect(find(source)).toEqual([])
})

test('SQL is found in every statement file', () => {
  const packages = path.join(import.meta.dirname, '..', '..', 'packages')
  const files = readdirSync(packages, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /^\w+[\\/]src[\\/].*-statements\.ts$/.test(file),
  )
  expect(files.length).toBeGreaterThan(20)
  for (const file of files) {
    const source = readFileSync(path.join(packages, file), 'utf8')
    // The texts of savepoints are in a file of their own.
    if (source.includes('savepointStatements.set(')) continue
    expect(sqlInStrings(file, source), file).not.toEqual([])
  }
})
