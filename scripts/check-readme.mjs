// Checks that the programs of the README and of docs run as pasted. Installs the packages as they would be published
// into an empty folder, by the install lines of the pages, saves each program under the name in its first line, compiles
// all of them, runs them against PostgreSQL and RabbitMQ, and checks their output and the rows that they leave. The
// pages of brokers and of libraries have their own folders and servers: see broker-pages.mjs and library-pages.mjs.
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import amqp from 'amqplib'
import { Client } from 'pg'
import { runBrokerPages } from './broker-pages.mjs'
import { installLibraries, runLibraryPages } from './library-pages.mjs'
import { startLocalRegistry } from './local-registry.mjs'
import {
  TYPE_CHECK,
  blocksOf,
  emptyProject,
  end,
  installsOf,
  run,
  say,
  start,
  undo,
  waitUntil,
} from './page-programs.mjs'
import { WEBHOOKS_PAGE, runWebhooksPage } from './webhook-page.mjs'
import { Proxy } from '../test/support/worlds/proxy.ts'
import { createDatabase } from '../test/support/engines/servers/postgres-databases.ts'
import { postgresServer } from '../test/support/engines/servers/postgres-server.ts'
import { rabbitmqServer } from '../test/support/engines/servers/rabbitmq-server.ts'
import { findServer } from '../test/support/engines/servers/server.ts'

const PAGES = ['README.md', 'docs/with/pglite.md', 'docs/with/rabbitmq.md', 'docs/deduplication.md']
/** Pages whose blocks form one program. A comment behind each `console.log` contains the expected output. */
const GUIDES = ['docs/http.md', 'docs/inbox.md', 'docs/local.md', 'docs/queue.md']
/** Where the programs of the README listen. */
const PORTS = [8710, 8711]

const printed = (running, line) =>
  waitUntil(() => running.output.split('\n').includes(line), running, `'${line}'`)

async function refuseTakenPorts() {
  for (const port of PORTS) {
    const socket = connect(port, 'localhost')
    const taken = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (taken) throw new Error(`Port ${port} is taken, and the programs of the README listen there.`)
  }
}

async function install(project, pages) {
  const blocks = pages.flat().filter(({ language }) => language === 'sh')
  const lines = blocks
    .flatMap(({ code }) => code.split('\n'))
    .filter((line) => /^npm (init|install)\b/.test(line))
  for (const line of new Set([...lines, ...[...PAGES, 'docs/http.md'].flatMap(installsOf)])) {
    await run('bash', ['-ec', line], project, process.env)
    say(line)
  }
}

function save(project, pages) {
  const files = pages.flat().flatMap(({ file, code }) => (file === undefined ? [] : [{ file, code }]))
  for (const { file, code } of files) writeFileSync(path.join(project, file), code)
  return files.map(({ file }) => file)
}

/** What the compiler needs to check the page about webhooks. */
const TYPES = ['typescript', '@types/node', '@types/pg', '@types/express']

/** Runs the block that starts the whole system, and checks the result that the page promises. */
async function runSystem(project, env, blocks, sql) {
  const block = blocks.find(({ language, code }) => language === 'sh' && code.includes('node shop.ts'))
  const system = start('bash', ['-ec', `${block.code}\necho THE END\nwait`], project, env)
  for (const [, line] of block.code.matchAll(/# billing: (.+)$/gm)) await printed(system, line)
  await printed(system, 'THE END')
  // The first call comes before the programs listen: it is repeated, and curl prints nothing.
  if (system.output.includes('curl:')) throw new Error(`curl printed errors:\n${system.output}`)
  if (!/backlog/i.test(system.output)) throw new Error(`status did not show the backlog:\n${system.output}`)
  await end(system, 'SIGTERM')
  const held = () => sql('select name from txbox.leases where owner is not null')
  await waitUntil(
    async () => (await held()).length === 0,
    system,
    'a relay that gives back its leases on SIGTERM',
  )
}

/** Runs a program that needs nothing but an empty database, and checks what each of its runs prints. */
async function runAlone(project, file, env, expected) {
  const database = await createDatabase(env.DATABASE_URL)
  try {
    for (const line of expected) {
      const output = await run(process.execPath, [file], project, { ...env, DATABASE_URL: database.url })
      if (output.trim() !== line) throw new Error(`${file} did not print '${line}':\n${output}`)
    }
  } finally {
    await database.drop()
  }
  say(file)
}

async function runRabbitmq(project, env, sql) {
  const search = await findServer(rabbitmqServer)
  if (!('found' in search)) throw new Error(search.missing)
  say(search.found.description)
  undo.push(async () => search.found.stop?.())
  const connection = await amqp.connect(search.found.url)
  undo.push(() => connection.close())
  const there = await connection.createChannel()
  there.on('error', () => undefined)
  const exists = await there.checkQueue('billing').then(
    () => true,
    () => false,
  )
  if (exists)
    throw new Error("RabbitMQ has a queue 'billing' already, which the program of the page would empty.")
  undo.push(async () => {
    const channel = await connection.createChannel()
    for (const queue of ['billing', 'billing.dead']) await channel.deleteQueue(queue)
    for (const exchange of ['shop', 'billing.dead']) await channel.deleteExchange(exchange)
  })
  const withBroker = { ...env, RABBITMQ_URL: search.found.url }
  const { hostname, port } = new URL(search.found.url)
  const proxy = await Proxy.to({ host: hostname, port: Number(port) || 5672 })
  undo.push(() => proxy.close())
  const throughProxy = new URL(search.found.url)
  throughProxy.hostname = proxy.address.host
  throughProxy.port = String(proxy.address.port)
  const withProxy = { ...env, RABBITMQ_URL: throughProxy.href }
  const consumer = start(process.execPath, ['consume-from-rabbitmq.ts'], project, withProxy)
  await printed(consumer, 'consuming')
  const asking = await connection.createChannel()
  const consumers = async () => (await asking.checkQueue('billing')).consumerCount
  proxy.cut()
  await waitUntil(() => consumer.output.includes('broke'), consumer, 'a connection that broke')
  await waitUntil(async () => (await consumers()) === 1, consumer, 'a second connection')
  const published = await run(process.execPath, ['publish-to-rabbitmq.ts'], project, withBroker)
  if (!published.includes('published: 1')) throw new Error(`publish-to-rabbitmq.ts printed:\n${published}`)
  await printed(consumer, 'o9 processed')
  const channel = await connection.createChannel()
  channel.publish('shop', 'orders.placed', Buffer.from('no JSON'), { messageId: 'broken' })
  await waitUntil(
    async () => (await channel.checkQueue('billing.dead')).messageCount === 1,
    consumer,
    'a dead letter',
  )
  const [code] = await end(consumer, 'SIGTERM')
  if (code !== 0) throw new Error(`consume-from-rabbitmq.ts ended with ${code}:\n${consumer.output}`)
  const [{ claims }] = await sql("select count(*)::int as claims from txbox.inbox where consumer = 'billing'")
  if (claims !== 3) throw new Error(`The consumer 'billing' has ${claims} claims instead of 3.`)
}

/** Runs the blocks of a page as one program, on its own database. */
async function runGuide(project, page, env) {
  const blocks = blocksOf(page).filter(({ language }) => language === 'ts')
  const [{ file }] = blocks
  const code = blocks.map((block) => block.code).join('\n')
  writeFileSync(path.join(project, file), code)
  await run('npx', ['tsc', ...TYPE_CHECK, file], project, env)
  const database = await createDatabase(env.DATABASE_URL)
  try {
    const printed = await run(process.execPath, [file], project, { ...env, DATABASE_URL: database.url })
    const expected = [...code.matchAll(/console\.log\(.*\) \/\/ (.+)$/gm)].map(([, line]) => line)
    if (expected.length === 0 || printed.trim() !== expected.join('\n')) {
      throw new Error(`${page} says that its program prints\n${expected.join('\n')}\nIt printed:\n${printed}`)
    }
  } finally {
    await database.drop()
  }
  say(page)
}

async function main() {
  await refuseTakenPorts()
  const folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-readme-'))
  undo.push(async () => rmSync(folder, { recursive: true, force: true }))
  const pages = PAGES.map(blocksOf)
  const search = await findServer(postgresServer)
  if (!('found' in search)) throw new Error(search.missing)
  say(search.found.description)
  undo.push(async () => search.found.stop?.())
  const database = await createDatabase(search.found.url)
  undo.push(() => database.drop())
  // The program of Node.js itself: pnpm's wrapper would set NODE_PATH, which leads to the packages of this workspace.
  const { NODE_PATH: _, ...inherited } = process.env
  const PATH = `${path.dirname(process.execPath)}${path.delimiter}${process.env.PATH}`
  const env = { ...inherited, PATH, DATABASE_URL: database.url }
  const sql = async (text) => {
    const client = new Client({ connectionString: database.url })
    await client.connect()
    return client.query(text).then(
      ({ rows }) => client.end().then(() => rows),
      (error) => client.end().then(() => Promise.reject(error)),
    )
  }

  const registry = await startLocalRegistry(path.join(folder, 'packed'))
  undo.push(() => registry.stop())
  const project = emptyProject(folder, 'project', registry)
  await install(project, pages)
  const files = save(project, pages)
  await run('npx', ['tsc', ...TYPE_CHECK, ...files], project, env)
  say(`${files.length} programs compile`)
  await runAlone(project, 'first.ts', env, ["[ { order_id: 'o1' } ]"])
  await runAlone(project, 'orders.ts', env, ['mail for o1'])
  await runAlone(project, 'once.ts', env, ['processed', 'duplicate'])
  await runSystem(project, env, pages[0], sql)
  say('the system of the README runs')
  for (const [file, expected] of [
    ['once.ts', 'processed'],
    ['once.ts', 'duplicate'],
    ['batch.ts', 'processed processed duplicate'],
  ]) {
    const output = await run(process.execPath, [file], project, env)
    if (!output.split('\n').includes(expected))
      throw new Error(`${file} did not print '${expected}':\n${output}`)
    say(file)
  }
  await run(process.execPath, ['--test', 'billing.test.ts'], project, env)
  say('billing.test.ts')
  await runRabbitmq(project, env, sql)
  say('RabbitMQ')
  const sent = await run(process.execPath, ['send-once.ts'], project, env)
  if (!sent.split('\n').includes('false true true')) throw new Error(`send-once.ts printed:\n${sent}`)
  say('send-once.ts')
  const [{ cents }] = await sql("select cents from accounts where id = 'sales'")
  if (cents !== 3200) throw new Error(`All effects together are ${cents} cents instead of 3200.`)
  const left = files.filter((file) => !RUN.has(file))
  if (left.length > 0) throw new Error(`Say in scripts/check-readme.mjs how to run ${left.join(', ')}.`)

  for (const page of GUIDES) await runGuide(project, page, env)

  const webhooks = emptyProject(folder, 'webhooks', registry)
  const packages = installsOf(WEBHOOKS_PAGE).flatMap((line) => line.replace('npm install ', '').split(' '))
  await run('npm', ['install', ...packages, ...TYPES], webhooks, process.env)
  say(`npm install ${packages.join(' ')}`)
  await runWebhooksPage(webhooks, env)

  await runBrokerPages(folder, registry, env)

  const libraries = emptyProject(folder, 'libraries', registry)
  await installLibraries(libraries)
  await runLibraryPages(libraries, env)
}

/** The programs that `main` runs, and the programs that they import. */
const RUN = new Set(
  'first orders once database setup shop relay billing batch billing.test publish-to-rabbitmq consume-from-rabbitmq send-once'
    .split(' ')
    .map((name) => `${name}.ts`),
)

try {
  await main()
  say('all programs of the pages run')
} catch (error) {
  console.error(error.message)
  process.exitCode = 1
} finally {
  for (const step of undo.toReversed()) await step()
}
