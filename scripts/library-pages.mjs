// Checks that the programs on the pages of the libraries run as pasted. Installs all libraries once, by the commands of
// libraries.md and of the pages, compiles each program, runs it against a server with its own database, which libraries.md
// says how to prepare, and checks its output and the rows that it leaves in the database.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { createConnection } from 'mysql2/promise'
import { Client } from 'pg'
import { NEST, TYPE_CHECK, blocksOf, installsOf, run, say, undo } from './page-programs.mjs'
import { startWebSocketBridge, throughBridge } from './websocket-bridge.mjs'
import { createDatabase as createMysqlDatabase } from '../test/support/engines/servers/mysql-databases.ts'
import { mariadbServer, mysqlServer } from '../test/support/engines/servers/mysql-server.ts'
import { createDatabase as createPostgresDatabase } from '../test/support/engines/servers/postgres-databases.ts'
import { postgresServer } from '../test/support/engines/servers/postgres-server.ts'
import { findServer } from '../test/support/engines/servers/server.ts'

const FOLDER = 'docs/with'
/** Pages without programs, and those whose programs check-readme.mjs runs. */
const OTHER_PAGES = new Set(['libraries', 'pglite', 'rabbitmq', 'runtimes', 'sql-transaction'])
const ENGINES = { mysql2: 'mysql', mariadb: 'mariadb', 'prisma-mysql': 'mysql' }
/** Two programs at a time keep two cores busy. */
const LANES = 2
/** The maximum time for installing all libraries with an empty cache. */
const LONGEST_INSTALL_MS = 300_000
/** The version of check-installs.mjs, which npx installs. */
const BUN = ['npx', '--yes', 'bun@1.4.5']

/** Prisma's schema engine, which would be downloaded, is not used: any existing program serves. */
const PRISMA = { PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' }

const pages = readdirSync(path.join(path.dirname(import.meta.dirname), FOLDER))
  .filter((file) => file.endsWith('.md'))
  .map((file) => path.basename(file, '.md'))
  .filter((name) => !OTHER_PAGES.has(name))
  .map((name) => ({ name, program: `with-${name}.ts`, blocks: blocksOf(`${FOLDER}/${name}.md`) }))

/** The programs of the page about versions, in the folders of their libraries. They share its table. */
const VERSIONING = 'docs/versioning.md'
const versioned = blocksOf(VERSIONING)
  .filter(({ file }) => file !== undefined)
  .map((block) => ({
    name: /^versioned-(.+)\.ts$/.exec(block.file)[1],
    program: block.file,
    blocks: [block],
  }))
const articles = blocksOf(VERSIONING).find(({ language }) => language === 'sql').code

/** The files that several programs import. */
const shared = blocksOf(`${FOLDER}/sql-transaction.md`)
const schema = readFileSync(path.join(path.dirname(import.meta.dirname), FOLDER, 'schema.prisma'), 'utf8')

/** How a reader prepares a folder and a database. */
const preparation = blocksOf(`${FOLDER}/libraries.md`)
const commands = preparation
  .filter(({ language }) => language === 'sh')
  .flatMap(({ code }) => code.trim().split('\n'))
const migrateCommand = commands.find((line) => line.startsWith('npx txbox migrate '))
const initCommand = commands.find((line) => line.startsWith('npm init '))
const tables = preparation.find(({ language }) => language === 'sql').code

/** Installs the packages of all pages, by one command. */
export async function installLibraries(project) {
  const names = [
    ...commands.filter((line) => line !== migrateCommand && line !== initCommand),
    ...[...pages.map(({ name }) => `${FOLDER}/${name}.md`), VERSIONING].flatMap(installsOf),
  ].flatMap((line) => {
    const [, packages] = /^npm install (?:--save-dev )?(.+)$/.exec(line) ?? []
    if (packages === undefined) throw new Error(`Say in scripts/library-pages.mjs how to run '${line}'.`)
    return packages.split(' ')
  })
  await run('bash', ['-ec', initCommand], project, process.env)
  const install = ['install', '--ignore-scripts', ...new Set(names)]
  // `npm run --silent` would hide the errors of this command, too.
  const env = { ...process.env, npm_config_loglevel: 'error' }
  await run('npm', install, project, env, LONGEST_INSTALL_MS)
  say(`npm install of ${new Set(names).size} packages`)
}

export async function runLibraryPages(project, env) {
  for (const page of pages) save(project, page)
  for (const { name, program, blocks } of versioned) {
    writeFileSync(path.join(project, name, program), blocks[0].code)
  }
  const servers = {}
  for (const [engine, kind] of Object.entries({
    postgres: postgresServer,
    mysql: mysqlServer,
    mariadb: mariadbServer,
  })) {
    const search = await findServer(kind)
    if (!('found' in search)) throw new Error(search.missing)
    say(search.found.description)
    undo.push(async () => search.found.stop?.())
    servers[engine] = search.found.url
  }
  const bridge = await startWebSocketBridge(servers.postgres)
  undo.push(() => bridge.stop())
  const prisma = { ...env, ...PRISMA, DATABASE_URL: servers.postgres }
  for (const page of ['prisma', 'prisma-mysql']) {
    await run('npx', ['prisma', 'generate'], path.join(project, page), prisma)
  }
  const plain = [...pages.filter(({ name }) => name !== 'nestjs'), ...versioned].map(
    ({ name, program }) => `${name}/${program}`,
  )
  await inLanes([
    () => run('npx', ['tsc', ...TYPE_CHECK, ...plain], project, env),
    () => run('npx', ['tsc', ...NEST, 'with-nestjs.ts'], path.join(project, 'nestjs'), env),
  ])
  say(`${pages.length + versioned.length} programs of the libraries compile`)
  await inLanes([
    ...pages.map((page) => () => runPage(page, project, env, { servers, bridge })),
    ...versioned.map((page) => () => runVersioned(page, project, env, servers.postgres)),
  ])
}

/** Each page has its own folder, whose programs find the libraries in the folder above. */
function save(project, { name, program, blocks }) {
  mkdirSync(path.join(project, name))
  for (const { language, code, file } of [...blocks, ...shared]) {
    // Settings that a page shows in part.
    if (language === 'js') continue
    if (file === undefined)
      throw new Error(`${FOLDER}/${name}.md: a program names its file in its first line.`)
    writeFileSync(path.join(project, name, file), code)
  }
  if (name.startsWith('prisma')) {
    const provider = (ENGINES[name] ?? 'postgresql').replace('mariadb', 'mysql')
    writeFileSync(path.join(project, name, 'schema.prisma'), schema.replace('"postgresql"', `"${provider}"`))
  }
  if (blocks.every(({ file }) => file !== program)) throw new Error(`${FOLDER}/${name}.md has no ${program}.`)
}

/** After a failure no further task starts. */
async function inLanes(tasks) {
  const left = [...tasks]
  const lane = async () => {
    try {
      for (let task = left.shift(); task !== undefined; task = left.shift()) await task()
    } finally {
      left.length = 0
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
}

async function runPage(page, project, env, { servers, bridge }) {
  const engine = ENGINES[page.name] ?? 'postgres'
  const createDatabase = engine === 'postgres' ? createPostgresDatabase : createMysqlDatabase
  const database = await createDatabase(servers[engine])
  try {
    const folder = path.join(project, page.name)
    const options = page.name === 'neon' ? throughBridge(folder, bridge) : []
    const addresses = { DATABASE_URL: database.url }
    await run('bash', ['-ec', migrateCommand], project, { ...env, ...addresses })
    await onServer(engine, database.url, (query) => query(tables))
    await runProgram(page, folder, { ...env, ...addresses }, options)
    const left = JSON.stringify(await onServer(engine, database.url, (query) => leftIn(engine, query)))
    if (left !== LEFT_BEHIND)
      throw new Error(`${page.program} left ${left} in the database instead of ${LEFT_BEHIND}.`)
  } finally {
    await database.drop()
  }
  say(page.program)
}

/** These programs need no tables of txbox. */
async function runVersioned(page, project, env, server) {
  const database = await createPostgresDatabase(server)
  try {
    await onServer('postgres', database.url, (query) => query(articles))
    await runProgram(page, path.join(project, page.name), { ...env, DATABASE_URL: database.url }, [])
  } finally {
    await database.drop()
  }
  say(page.program)
}

/** Runs the program, whose comments contain the expected output of each `console.log`. */
async function runProgram({ name, program, blocks }, folder, env, options) {
  const compiled = name === 'nestjs' ? `dist/${program.replace('.ts', '.js')}` : program
  const [command, ...args] = name === 'bun-sql' ? [...BUN, program] : [process.execPath, ...options, compiled]
  const output = await run(command, args, folder, env)
  const { code } = blocks.find(({ file }) => file === program)
  const expected = [...code.matchAll(/^console\.log\(.*\) \/\/ (.+)$/gm)].map(([, line]) => line)
  if (expected.length === 0) throw new Error(`${program} does not say what it prints.`)
  for (const line of expected) {
    if (!output.split('\n').includes(line)) throw new Error(`${program} did not print '${line}':\n${output}`)
  }
}

/** One effect, one claim, and the messages of the producer and of the handler. */
const LEFT_BEHIND = JSON.stringify({
  orders: [{ cents: 900, paid: 900 }],
  claims: [{ consumer: 'payments' }],
  messages: [{ topic: 'orders.paid' }, { topic: 'orders.placed' }],
})

async function leftIn(engine, query) {
  const isPostgres = engine === 'postgres'
  const prefix = isPostgres ? 'txbox.' : 'txbox_'
  const consumer = isPostgres ? 'consumer' : 'cast(consumer as char) as consumer'
  const key = isPostgres ? 'key' : '`key`'
  return {
    orders: await query("select cents, paid from orders where id = 'o1'"),
    claims: await query(`select ${consumer} from ${prefix}inbox where ${key} = 'm1'`),
    messages: await query(`select topic from ${prefix}outbox order by topic`),
  }
}

/** Calls `work` with a function that runs a statement and returns its rows. */
async function onServer(engine, url, work) {
  const isPostgres = engine === 'postgres'
  const client = isPostgres ? new Client({ connectionString: url }) : await createConnection(url)
  if (isPostgres) await client.connect()
  try {
    return await work(async (text) => {
      const answer = await client.query(text)
      return isPostgres ? answer.rows : answer[0]
    })
  } finally {
    await client.end()
  }
}
