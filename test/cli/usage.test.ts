import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { spawnTxbox, txbox } from './run-txbox.ts'

const SECRET_URL = 'postgres://shop:hidden-word@db.example/shop'

test.for(['18.20.8', '20.19.0', '22.11.0'])(
  'on Node.js %s the command prints one sentence that names the required version',
  async (version) => {
    const before = `Object.defineProperty(process.versions, 'node', { value: '${version}' })`
    const { code, stdout, stderr } = await spawnTxbox(['--help'], {}, { before })
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toBe(`txbox: this command needs Node.js 22.12 or later; this is Node.js ${version}.\n`)
  },
)

const STARTERS = ['cli/dist/main.js', 'txbox/dist/main.js', 'command/dist/start-txbox.js']
test.for(STARTERS)(
  'code that an old Node.js cannot parse is imported only after the check of the version: %s',
  (file) => {
    const url = new URL(`../../packages/${file}`, import.meta.url)
    expect(readFileSync(url, 'utf8')).not.toMatch(/^import /m)
  },
)

test('--version prints the version of the package', async () => {
  const manifest = readFileSync(new URL('../../packages/cli/package.json', import.meta.url), 'utf8')
  const { version } = JSON.parse(manifest) as { version: string }
  expect((await txbox(['--version'])).stdout).toBe(`${version}\n`)
})

const misplaced: [string, string[]][] = [
  ['a command', [SECRET_URL]],
  ['an argument', ['status', SECRET_URL]],
  ['an unknown option', ['status', `--databse=${SECRET_URL}`]],
  ['a number', ['gc', '--batch-size', SECRET_URL]],
  ['a port', ['relay', '--publisher', 'stdout:', '--health-port', SECRET_URL]],
  ['a publisher', ['relay', '--publisher', SECRET_URL]],
  ['an URL of another kind', ['status', '--database', SECRET_URL.replace('postgres', 'oracle')]],
  ['an URL that cannot be read', ['status', '--database', SECRET_URL.replace('db.example', 'db:99999')]],
  ['an URL that is not encoded', ['status', '--database', SECRET_URL.replace('hidden', '%zz-hidden')]],
  ['an URL without slashes', ['status', '--database', 'postgres:shop:hidden-word@db']],
]

test.for(misplaced)(
  'N2 a URL in the place of %s is wrong usage, and the URL is not shown',
  async ([, args]) => {
    const { code, stdout, stderr } = await txbox(args)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/^txbox: .*\n$/)
    expect(stderr).not.toContain('hidden-word')
  },
)

test('the hint names the help of the subcommand', async () => {
  expect((await txbox(['relay', '--nonsense'])).stderr).toContain("(see 'npx @txbox/cli relay --help')")
  expect((await txbox(['dead-letters', 'list', '--nonsense'])).stderr).toContain(
    "(see 'npx @txbox/cli dead-letters list --help')",
  )
})

test('a wrong URL of a database is answered with examples of right ones', async () => {
  for (const url of ['oracle://db/shop', 'nonsense']) {
    const { stderr } = await txbox(['status', '--database', url])
    expect(stderr).toContain('expected postgres://host/database or mysql://host/database')
  }
})

test('an invalid port is wrong usage', async () => {
  const { code, stderr } = await txbox(['relay', '--publisher', 'stdout:', '--health-port', '70000'])
  expect([code, stderr]).toEqual([2, expect.stringContaining('Expected a port, from 0 to 65535.')])
})

test('--timeout without --drain is wrong usage', async () => {
  const { code, stderr } = await txbox(['relay', '--publisher', 'stdout:', '--timeout', '5'])
  expect([code, stderr]).toEqual([2, expect.stringContaining('--timeout requires --drain')])
})

test.for([
  [],
  ['migrate'],
  ['relay'],
  ['gc'],
  ['status'],
  ['consumers'],
  ['consumers', 'list'],
  ['consumers', 'add'],
  ['consumers', 'remove'],
  ['dead-letters'],
  ['dead-letters', 'list'],
  ['dead-letters', 'show'],
  ['dead-letters', 'redrive'],
  ['dead-letters', 'discard'],
  ['doctor'],
])('the help of %j fits into 80 columns, and says how the command is called', async (command) => {
  const { code, stdout } = await txbox([...command, '--help'])
  expect(code).toBe(0)
  expect(stdout).toContain(`Usage: ${['npx @txbox/cli', ...command].join(' ')}`)
  expect(stdout.split('\n').filter((line) => line.length > 80)).toEqual([])
})

test.for([
  ['status', '--database', `${SECRET_URL}?ssl-mode=REQUIRED`],
  ['status', '--database', `${SECRET_URL}?sslaccept=strict`],
  ['status', '--database', `${SECRET_URL.replace('postgres', 'mysql')}?ssl-mode=PREFERRED`],
  ['relay', '--database', SECRET_URL, '--publisher', 'amqp://shop:hidden-word@mq.example/?ssl-mode=REQUIRED'],
])(
  'N2 an address that asks for TLS in a form that a client ignores is wrong usage, and the form that works is named: %s',
  async (args) => {
    const { code, stdout, stderr } = await txbox(args)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/would connect without (the )?TLS.*(sslmode=require|ssl-mode=REQUIRED|amqps:)/)
    expect(stderr).not.toContain('hidden-word')
  },
)
