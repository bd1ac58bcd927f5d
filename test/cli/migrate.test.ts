import { readdirSync } from 'node:fs'
import path from 'node:path'
import { expect, inject, onTestFinished, test } from 'vitest'
import { Proxy } from '../support/worlds/proxy.ts'
import { useDatabaseUrl } from './use-database-url.ts'
import { ended, startTxbox, txbox } from './run-txbox.ts'

const database = useDatabaseUrl()
const NAMES = readdirSync(path.join(import.meta.dirname, '../../migrations/postgres'))
  .toSorted()
  .map((file) => file.replace('.sql', ''))

test('migrate creates the tables, and the second time finds nothing to do', async () => {
  const args = ['migrate', '--database', database.url, '--schema', 'first']
  const first = await txbox(args)
  expect(first).toEqual({ code: 0, stdout: `Applied ${NAMES.join(', ')}.\n`, stderr: '' })
  const second = await txbox(args)
  expect(second).toEqual({ code: 0, stdout: 'The tables are up to date.\n', stderr: '' })
})

test('migrate reads the address of the database from DATABASE_URL and prints JSON', async () => {
  const { code, stdout } = await txbox(['migrate', '--json', '--schema', 'second'], {
    DATABASE_URL: database.url,
  })
  expect(code).toBe(0)
  expect(JSON.parse(stdout)).toEqual({ applied: NAMES })
})

test('migrate --dry-run lists the migrations that would be applied, and changes nothing', async () => {
  const args = ['migrate', '--dry-run', '--database', database.url, '--schema', 'dry']
  expect((await txbox(args)).stdout).toBe(`Would apply ${NAMES.join(', ')}.\n`)
  expect(JSON.parse((await txbox([...args, '--json'])).stdout)).toEqual({ pending: NAMES })
  expect((await database.sql("select 1 from pg_namespace where nspname = 'dry'")).rowCount).toBe(0)
  await txbox(['migrate', '--database', database.url, '--schema', 'dry'])
  expect((await txbox(args)).stdout).toBe('The tables are up to date.\n')
})

test('a killed migrate leaves nothing behind that makes the next one fail', async () => {
  const url = new URL(database.url)
  const proxy = await Proxy.to({ host: url.hostname, port: Number(url.port || 5432) })
  onTestFinished(() => proxy.close())
  url.host = `127.0.0.1:${proxy.address.port}`
  // Each migration is one process that is killed: the quick tier kills the first and the last.
  const killed = inject('tier') === 'all' ? NAMES : [NAMES[0]!, NAMES.at(-1)!]
  for (const name of killed) {
    // The last statement of a migration, which records that the migration was applied.
    const held = proxy.hold(new RegExp(`values \\(${Number(name.slice(0, 4))}, '`))
    const child = startTxbox(['migrate', '--database', url.href, '--schema', `killed ${name}`])
    const end = ended(child)
    await held.reached
    child.kill('SIGKILL')
    await end
    held.letGo()
    const again = await txbox(['migrate', '--database', database.url, '--schema', `killed ${name}`])
    expect(again.stdout).toBe(`Applied ${NAMES.join(', ')}.\n`)
  }
}, 240_000)

test('migrate --print writes SQL that creates the tables in a schema with capitals, quotes and hyphens', async () => {
  const { code, stdout } = await txbox(['migrate', '--print', '--schema', 'My "Own" - schema'])
  expect(code).toBe(0)
  await database.sql(stdout)
  const again = await txbox(['migrate', '--database', database.url, '--schema', 'My "Own" - schema'])
  expect(again.stdout).toBe('The tables are up to date.\n')
})

const mistakes: [string, string[], number, RegExp][] = [
  ['no command', [], 2, /Usage: npx @txbox\/cli/],
  ['an unknown command', ['migrat'], 2, /unknown command 'migrat'/],
  ['an unknown option', ['migrate', '--databse', 'x'], 2, /unknown option '--databse'/],
  [
    '--print with --dry-run',
    ['migrate', '--print', '--dry-run'],
    2,
    /cannot be used with option '--dry-run'/,
  ],
  ['no database', ['migrate'], 2, /no database: pass --database/],
  ['a database that is not a URL', ['migrate', '--database', 'secret'], 2, /--database is not a URL/],
  [
    'a database of another kind',
    ['migrate', '--database', 'mongodb://u:secret@h/d'],
    2,
    /mongodb:\/\/ is not available/,
  ],
  [
    'a schema that is too long',
    ['migrate', '--print', '--schema', 'x'.repeat(64)],
    2,
    /'schema' must be a name/,
  ],
  [
    'a database that is not there',
    ['migrate', '--database', 'postgres://u:secret@127.0.0.1:1/d'],
    1,
    /the database cannot be reached/,
  ],
]

test.for(mistakes)(
  '%s causes one line of output that says what to do',
  async ([, args, expectedCode, expected]) => {
    const { code, stderr, stdout } = await txbox(args)
    expect(code).toBe(expectedCode)
    expect(stdout).toBe('')
    expect(stderr).toMatch(expected)
    expect(stderr).not.toContain('secret')
    expect(stderr).not.toMatch(/^\s+at /m)
    if (args.length > 0) expect(stderr.trim().split('\n').length).toBe(1)
  },
)
