// Checks that `npm install txbox pg` gives a user everything that the README promises. Installs the packed packages into
// empty projects with each package manager, checks the types of test/installed under two versions of TypeScript without
// skipLibCheck, runs the programs against PostgreSQL, and calls the command: with the project's driver, and with a driver
// that is not installed.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import { fileURLToPath } from 'node:url'
import path from 'node:path'
import { WITHOUT_DRIVER, WITHOUT_PACKAGE } from './answers-without-package.mjs'
import { startLocalRegistry } from './local-registry.mjs'
import { createDatabase } from '../test/support/engines/servers/postgres-databases.ts'
import { postgresServer } from '../test/support/engines/servers/postgres-server.ts'
import { findServer } from '../test/support/engines/servers/server.ts'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const own = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
const LONGEST_COMMAND_MS = 120_000

const FIRST = ['txbox', `pg@${own.devDependencies.pg}`]
const TYPES = ['@types/node', '@types/pg'].map((name) => `${name}@${own.devDependencies[name]}`)
const COMPILERS = [
  `typescript7@npm:typescript@${own.devDependencies.typescript}`,
  `typescript59@${own.devDependencies.typescript59}`,
]
const SECOND = [
  '@txbox/inbox',
  '@txbox/postgres',
  '@txbox/rabbitmq',
  `kysely@${own.devDependencies.kysely}`,
  `amqplib@${own.devDependencies.amqplib}`,
]

const LONG_NAMES = ['inbox', 'outbox', 'relay', 'gc', 'postgres', 'webhook', 'testing', 'cli'].map(
  (name) => `@txbox/${name}`,
)

/** The other packages, with the clients that they need. */
const OTHERS = [
  ...['consumer', 'rabbitmq', 'kafka', 'nats', 'redis', 'sqs', 'pg-boss'],
  ...['cloudevents', 'opentelemetry', 'prometheus', 'idempotency-key'],
].map((name) => `@txbox/${name}`)
const CLIENTS = [
  ...['amqplib', '@platformatic/kafka', '@nats-io/transport-node', '@nats-io/jetstream', 'redis'],
  ...['@aws-sdk/client-sqs', '@aws-sdk/client-sns', 'pg-boss', '@opentelemetry/api'],
].map((name) => `${name}@${own.devDependencies[name]}`)

/** Each package manager, in the version that is checked. `npx` installs all of them but npm. */
const MANAGERS = [
  { name: 'npm', command: ['npm'], add: ['install', '--no-audit', '--no-fund'] },
  {
    name: 'pnpm',
    command: ['npx', '--yes', own.packageManager],
    // Strict: a package sees its own dependencies and nothing else.
    add: ['add', '--config.hoist=false', '--config.strict-peer-dependencies=true'],
  },
  {
    name: 'yarn',
    command: ['npx', '--yes', '@yarnpkg/cli-dist@4.18.1'],
    add: ['add'],
    env: { YARN_NODE_LINKER: 'node-modules' },
  },
  {
    // Plug'n'Play: stricter than pnpm, and without node_modules. The native compiler cannot read its archives.
    name: 'yarn pnp',
    command: ['npx', '--yes', '@yarnpkg/cli-dist@4.18.1'],
    add: ['add'],
    env: { YARN_NODE_LINKER: 'pnp' },
    pnp: true,
  },
  { name: 'bun', command: ['npx', '--yes', 'bun@1.4.5'], add: ['add'] },
]

const COMPILER_OPTIONS = [
  '--noEmit',
  ...['--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess'],
  ...['--skipLibCheck', 'false', '--target', 'es2023', '--module', 'nodenext', '--types', 'node'],
]

/** Errors in the declarations of these clients themselves, which a project cannot fix: it compiles with skipLibCheck. */
const CLIENTS_OWN = /^node_modules\/(@platformatic\/kafka|pg-boss)\//

const began = Date.now()
const say = (text) => console.log(`${((Date.now() - began) / 1000).toFixed(0).padStart(3)} s  ${text}`)

async function run([command, ...args], cwd, env) {
  const child = spawn(command, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'])
    child[name].setEncoding('utf8').on('data', (text) => (ended[name] += text))
  const tooLong = setTimeout(() => {
    if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  }, LONGEST_COMMAND_MS)
  const [code] = await once(child, 'close')
  clearTimeout(tooLong)
  return { code, ...ended }
}

async function succeed(words, cwd, env) {
  const { code, stdout, stderr } = await run(words, cwd, env)
  if (code !== 0) throw new Error(`'${words.join(' ')}' ended with ${code}:\n${stdout}${stderr}`)
  return stdout
}

function expect(found, wanted, what) {
  if (found !== wanted) throw new Error(`${what}: expected\n  ${wanted}\nfound\n  ${found}`)
}

/** The caches of npm and pnpm use hashes of the content; those of yarn and bun use name and version, so they start empty. */
function environmentOf(manager, folder, registry, database) {
  const { CI: _, NODE_OPTIONS: __, NODE_PATH: ___, ...inherited } = process.env
  return {
    ...inherited,
    // The program of Node.js itself: pnpm's wrapper would set NODE_PATH, which leads to the packages of this workspace.
    PATH: `${path.dirname(process.execPath)}${path.delimiter}${process.env.PATH}`,
    DATABASE_URL: database,
    npm_config_registry: registry,
    npm_config_update_notifier: 'false',
    BUN_INSTALL_CACHE_DIR: path.join(folder, 'bun-cache'),
    BUN_CONFIG_REGISTRY: registry,
    YARN_NPM_REGISTRY_SERVER: registry.replace(/\/$/, ''),
    YARN_UNSAFE_HTTP_WHITELIST: '127.0.0.1',
    YARN_GLOBAL_FOLDER: path.join(folder, 'yarn'),
    YARN_ENABLE_TELEMETRY: '0',
    YARN_ENABLE_IMMUTABLE_INSTALLS: 'false',
    // The packages were packed a moment ago, so a minimum age would refuse them.
    YARN_NPM_MINIMAL_AGE_GATE: '0',
    ...manager.env,
  }
}

/** The version of a package manager, or the reason why it cannot run on this machine. */
async function versionOf({ command }, folder) {
  const { code, stdout, stderr } = await run([...command, '--version'], folder, process.env)
  if (code === 0) return { version: stdout.trim() }
  return { missing: `${stdout}${stderr}`.trim().split('\n').at(-1) }
}

async function checkTypes(project, files, env) {
  for (const compiler of ['typescript59', 'typescript7']) {
    const tsc = path.join(project, 'node_modules', compiler, 'bin', 'tsc')
    const { code, stdout, stderr } = await run(
      [process.execPath, tsc, ...COMPILER_OPTIONS, ...files],
      project,
      env,
    )
    const errors = `${stdout}${stderr}`
      .split('\n')
      .filter((line) => /^\S/.test(line) && !CLIENTS_OWN.test(line))
    if (code !== 0 && (errors.length > 0 || stdout === ''))
      throw new Error(`${compiler} ended with ${code} for ${files.join(', ')}:\n${errors.join('\n')}`)
  }
}

function refuseUninvited(project) {
  const folders = ['node_modules', 'node_modules/.pnpm'].map((name) => path.join(project, name))
  const installed = folders.filter((folder) => existsSync(folder)).flatMap((folder) => readdirSync(folder))
  const uninvited = installed.filter((name) => /^(mysql2|kysely|amqplib)(@|$)/.test(name))
  if (uninvited.length > 0) throw new Error(`'install txbox pg' has also installed ${uninvited.join(', ')}.`)
}

function emptyProject(folder, name) {
  const project = path.join(folder, name)
  mkdirSync(project)
  writeFileSync(path.join(project, 'package.json'), '{ "name": "user", "private": true, "type": "module" }\n')
  const programs = path.join(root, 'test', 'installed')
  for (const file of readdirSync(programs)) copyFileSync(path.join(programs, file), path.join(project, file))
  return project
}

async function checkManager(manager, folder, registry, database) {
  const project = emptyProject(folder, manager.name.replace(' ', '-'))
  // Without its own lock file, yarn treats the project as a part of the nearest project above.
  if (manager.name.startsWith('yarn')) writeFileSync(path.join(project, 'yarn.lock'), '')
  const env = environmentOf(manager, folder, registry, database)
  const pnp = manager.pnp === true
  const node = pnp ? [...manager.command, 'node'] : [process.execPath]
  const txbox = pnp
    ? [...manager.command, 'run', 'txbox']
    : [path.join(project, 'node_modules', '.bin', 'txbox')]

  await succeed([...manager.command, ...manager.add, ...FIRST], project, env)
  refuseUninvited(project)
  const compilers = pnp ? [] : COMPILERS
  await succeed([...manager.command, ...manager.add, '-D', ...TYPES, ...compilers], project, env)
  if (!pnp) await checkTypes(project, ['with-txbox.ts'], env)
  expect(
    (await succeed([...node, 'with-txbox.ts'], project, env)).trim(),
    'processed duplicate {"cents":500}',
    'with-txbox.ts',
  )
  const { healthy } = JSON.parse(await succeed([...txbox, 'doctor', '--json'], project, env))
  expect(healthy, true, 'txbox doctor')
  // The texts for all packages are the same under each manager.
  const answers = manager.name === 'npm' ? [...WITHOUT_DRIVER, ...WITHOUT_PACKAGE] : WITHOUT_DRIVER
  for (const { args, answer } of answers) {
    const { code, stdout, stderr } = await run([...txbox, ...args], project, env)
    // npx, which runs yarn here, may warn about settings of this machine.
    const said = stderr.replaceAll(/^npm warn .*\n/gm, '')
    expect(
      `${code} ${stdout}${said}`,
      `1 txbox: ${answer.replace('{project}', project)}\n`,
      `txbox ${args.join(' ')}`,
    )
  }

  await succeed([...manager.command, ...manager.add, ...SECOND], project, env)
  if (!pnp) await checkTypes(project, ['with-kysely.ts'], env)
  expect(
    (await succeed([...node, 'with-kysely.ts'], project, env)).trim(),
    '2 processed true',
    'with-kysely.ts',
  )
}

/**
 * Installs the packages one by one, and the command that depends on its own drivers: projects that use these packages
 * need not change.
 */
async function checkLongNames(manager, folder, registry, database) {
  const project = emptyProject(folder, 'long-names')
  const env = environmentOf(manager, folder, registry, database)
  await succeed([...manager.command, ...manager.add, ...LONG_NAMES, FIRST[1]], project, env)
  await succeed([...manager.command, ...manager.add, '-D', ...TYPES, ...COMPILERS], project, env)
  await checkTypes(project, ['with-long-names.ts'], env)
  expect(
    (await succeed([process.execPath, 'with-long-names.ts'], project, env)).trim(),
    'processed booked',
    'with-long-names.ts',
  )
  const { healthy } = JSON.parse(await succeed(['npx', '@txbox/cli', 'doctor', '--json'], project, env))
  expect(healthy, true, 'npx @txbox/cli doctor')
  await succeed([...manager.command, ...manager.add, ...OTHERS, ...CLIENTS], project, env)
  await checkTypes(project, ['with-every-package.ts'], env)
  const printed = await succeed([process.execPath, 'with-every-package.ts'], project, env)
  expect(printed.trim(), '7 5 true', 'with-every-package.ts')
}

async function main(folder, undo) {
  const search = await findServer(postgresServer)
  if (!('found' in search)) throw new Error(search.missing)
  undo.push(async () => search.found.stop?.())
  say(search.found.description)
  const registry = await startLocalRegistry(path.join(folder, 'packed'))
  undo.push(() => registry.stop())
  say('packed')
  const left = []
  for (const manager of MANAGERS) {
    const { version, missing } = await versionOf(manager, folder)
    if (missing !== undefined) {
      left.push(`${manager.name}: not checked, because it could not be had: ${missing}`)
      continue
    }
    const database = await createDatabase(search.found.url)
    try {
      await checkManager(manager, folder, registry.url, database.url)
      if (manager.name === 'npm') await checkLongNames(manager, folder, registry.url, database.url)
    } catch (error) {
      throw new Error(`${manager.name} ${version}: ${error.message}`, { cause: error })
    } finally {
      await database.drop()
    }
    const types = manager.pnp !== true ? ', types under TypeScript 5.9 and 7' : ''
    say(`${manager.name} ${version}: installed, programs and command run${types}`)
    if (manager.name === 'npm')
      say(
        `${manager.name} ${version}: the same under the long names, with @txbox/cli and every other package`,
      )
  }
  for (const line of left) say(line)
  if (left.length > 0 && process.env.CI === 'true')
    throw new Error('With CI=true every package manager must be there.')
}

const undo = []
const folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-installs-'))
try {
  await main(folder, undo)
} catch (error) {
  console.error(error.message)
  process.exitCode = 1
} finally {
  for (const step of undo.toReversed()) await step()
  rmSync(folder, { recursive: true, force: true })
}
