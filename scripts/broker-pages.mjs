// Checks that the programs of the brokers' pages run as pasted: installs the packages into an empty folder for each page,
// by the commands of the README and of the page, compiles the programs, and runs them on a real server and a database of
// their own. The program of both sides must print what its comments say, also when it runs again and publishes the same
// message, and its effect must be in the database once.
import { mkdirSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { connect as connectSocket } from 'node:net'
import path from 'node:path'
import { DeleteQueueCommand, ListQueuesCommand, SQSClient } from '@aws-sdk/client-sqs'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect as connectNats } from '@nats-io/transport-node'
import { Admin } from '@platformatic/kafka'
import { startFauxqs } from 'fauxqs'
import { Client } from 'pg'
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
import { freePort } from '../test/support/engines/servers/free-port.ts'
import { kafkaServer } from '../test/support/engines/servers/kafka-server.ts'
import { natsServer } from '../test/support/engines/servers/nats-server.ts'
import { createDatabase } from '../test/support/engines/servers/postgres-databases.ts'
import { findRedisProgram } from '../test/support/engines/servers/redis-program.ts'
import { findServer } from '../test/support/engines/servers/server.ts'
import { sqsServer } from '../test/support/engines/servers/sqs-server.ts'

const REGION = 'eu-central-1'
/** Two pages at a time: while one installs, the other one computes. */
const LANES = 2

/**
 * `prepare`: programs that run before that of both sides, in this order. `copies`: the broker keeps a second publication of a
 * message, so that the inbox has to recognize it. `rare`: few machines have the server, so that the page is left out
 * without it, even with `CI=true`, as are the tests on Kafka.
 */
const PAGES = [
  { name: 'kafka', prepare: ['create-topics.ts'], copies: true, server: kafka, rare: true },
  { name: 'nats', prepare: ['create-streams.ts'], copies: false, server: nats },
  { name: 'redis', prepare: [], copies: true, server: redis },
  { name: 'sqs', prepare: ['create-queues.ts'], copies: false, server: sqs },
  { name: 'pg-boss', prepare: ['send-in-transaction.ts'], copies: false, server: pgBoss },
]

/** Throws if a server has these already: the programs of the page create them, and the check deletes them afterwards. */
function refuseExisting(kind, names) {
  if (names.length > 0)
    throw new Error(`There is a ${kind} ${names.join(', ')} already, which the page uses.`)
}

async function kafka() {
  const { found, missing } = await findServer(kafkaServer)
  if (found === undefined) return { missing }
  const admin = new Admin({ clientId: 'txbox-pages', bootstrapBrokers: [found.url] })
  undo.push(() => admin.close())
  const topics = async () =>
    (await admin.listTopics()).filter((topic) => ['shop.orders', 'shop.dead'].includes(topic))
  refuseExisting('topic', await topics())
  // The offsets of the group go with the topics, and Kafka removes a group without offsets.
  const remove = async () => {
    await admin.deleteTopics({ topics: await topics() })
  }
  return { description: found.description, env: { KAFKA_BROKERS: found.url }, remove }
}

async function nats() {
  const { found, missing } = await findServer(natsServer)
  if (found === undefined) return { missing }
  undo.push(async () => found.stop?.())
  const connection = await connectNats({ servers: found.url })
  undo.push(() => connection.close())
  const { streams } = await jetstreamManager(connection)
  const names = async () => {
    const all = []
    for await (const name of streams.names()) all.push(name)
    return all.filter((name) => ['SHOP', 'DEAD'].includes(name))
  }
  refuseExisting('stream', await names())
  const remove = async () => {
    for (const name of await names()) await streams.delete(name)
  }
  return { description: found.description, env: { NATS_URL: found.url }, remove }
}

async function redis(folder) {
  const program = findRedisProgram()
  if (program === undefined)
    return { missing: 'redis-server is nowhere. Install it, or set TXBOX_REDIS_SERVER.' }
  const port = await freePort()
  mkdirSync(folder)
  const settings = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'yes']
  const server = start(program, settings, folder, process.env)
  await waitUntil(() => accepts(port), server, 'a connection')
  const description = `${program} on port ${port}`
  return {
    description,
    env: { REDIS_URL: `redis://127.0.0.1:${port}` },
    remove: () => end(server, 'SIGKILL'),
  }
}

async function accepts(port) {
  const socket = connectSocket(port, '127.0.0.1')
  const connected = await once(socket, 'connect').then(
    () => true,
    () => false,
  )
  socket.destroy()
  return connected
}

/** The server that the environment names, which may be AWS, or else fauxqs in this process. */
async function sqs() {
  const { found } = await findServer(sqsServer)
  const fauxqs =
    found === undefined ? await startFauxqs({ port: 0, logger: false, defaultRegion: REGION }) : undefined
  if (fauxqs !== undefined) undo.push(() => fauxqs.stop())
  const endpoint = found?.url ?? `http://127.0.0.1:${fauxqs.port}`
  const env = {
    AWS_REGION: process.env.AWS_REGION ?? REGION,
    AWS_ACCESS_KEY_ID: process.env.AWS_ACCESS_KEY_ID ?? 'test',
    AWS_SECRET_ACCESS_KEY: process.env.AWS_SECRET_ACCESS_KEY ?? 'test',
    AWS_ENDPOINT_URL_SQS: endpoint,
  }
  const client = new SQSClient({
    endpoint,
    region: env.AWS_REGION,
    credentials: { accessKeyId: env.AWS_ACCESS_KEY_ID, secretAccessKey: env.AWS_SECRET_ACCESS_KEY },
    useQueueUrlAsEndpoint: false,
  })
  undo.push(async () => client.destroy())
  const urls = async () =>
    (await client.send(new ListQueuesCommand({ QueueNamePrefix: 'shop-' }))).QueueUrls ?? []
  refuseExisting('queue', await urls())
  const remove = async () => {
    for (const QueueUrl of await urls()) await client.send(new DeleteQueueCommand({ QueueUrl }))
  }
  return { description: found?.description ?? `fauxqs at ${endpoint}`, env, remove }
}

/** The queue of the publisher is in another database than the work. */
async function pgBoss(_folder, env) {
  const jobs = await createDatabase(env.DATABASE_URL)
  return { description: 'another database', env: { JOBS_URL: jobs.url }, remove: () => jobs.drop() }
}

/** The comments behind `console.log` contain the expected output. */
const expectedOf = (code) => [...code.matchAll(/console\.log\(.*\) \/\/ (.+)$/gm)].map(([, line]) => line)

async function runAndCompare({ file, code }, project, env) {
  const printed = await run(process.execPath, [file], project, env)
  const expected = expectedOf(code).join('\n')
  if (printed.trim() !== expected)
    throw new Error(`${file} had to print '${expected}', and printed:\n${printed}`)
}

/** Runs a program until it has printed these lines, in any order, and ends it: it must end well, and have printed no other line. */
async function runUntilPrinted({ file }, lines, project, env) {
  const program = start(process.execPath, [file], project, env)
  const expected = lines.toSorted().join('\n')
  const printed = () => program.output.trim().split('\n').toSorted().join('\n') === expected
  await waitUntil(printed, program, `'${lines.join(', ')}'`)
  const [code] = await end(program, 'SIGTERM')
  if (code !== 0 || !printed()) throw new Error(`${file} ended with ${code}:\n${program.output}`)
}

async function rowsOf(url, text) {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

/** Runs the programs of a page, in the order of a reader. */
async function runPrograms({ name, prepare, copies }, programs, project, env) {
  const of = (file) => {
    const program = programs.find((each) => each.file === file)
    if (program === undefined) throw new Error(`docs/${name}.md has no program ${file}.`)
    return program
  }
  for (const file of prepare) await runAndCompare(of(file), project, env)
  const both = of(`${name}.ts`)
  const [processed, published] = expectedOf(both.code)
  await runUntilPrinted(both, [processed, published], project, env)
  const again = copies ? [processed.replace('processed', 'duplicate')] : []
  await runUntilPrinted(both, [...again, published], project, env)
  const [left] = await rowsOf(
    env.DATABASE_URL,
    `select cents, (select count(*)::int from txbox.inbox where consumer = 'billing') as claims,
      (select count(*)::int from txbox.outbox) as outgoing from accounts where id = 'sales'`,
  )
  const effect = JSON.stringify(left)
  if (effect !== '{"cents":900,"claims":1,"outgoing":0}') throw new Error(`The programs left ${effect}.`)
  const known = new Set([...prepare, both.file])
  const others = programs.filter(({ file }) => !known.has(file)).map(({ file }) => file)
  if (others.length > 0) throw new Error(`Say in scripts/broker-pages.mjs how to run ${others.join(', ')}.`)
}

/** The files of the README that the programs import, and the commands that install what these need. */
function readmeOf() {
  const blocks = blocksOf('README.md')
  const files = blocks.filter(({ file }) => file === 'database.ts' || file === 'setup.ts')
  const { code } = blocks.find(
    ({ language, code }) => language === 'sh' && code.includes('--save-dev typescript'),
  )
  return { files, commands: code.trim().split('\n') }
}

async function runPage(page, folder, registry, env) {
  const project = emptyProject(folder, page.name, registry)
  const {
    description,
    missing,
    env: addresses,
    remove,
  } = await page.server(path.join(folder, `${page.name}-server`), env)
  if (missing !== undefined) {
    if (process.env.CI === 'true' && page.rare !== true) throw new Error(missing)
    return say(`docs/${page.name}.md: LEFT OUT: ${missing}`)
  }
  const database = await createDatabase(env.DATABASE_URL)
  try {
    const readme = readmeOf()
    for (const command of [...readme.commands, ...installsOf(`docs/${page.name}.md`)])
      await run('bash', ['-ec', command], project, env)
    const programs = blocksOf(`docs/${page.name}.md`).filter(({ file }) => file !== undefined)
    const all = [...readme.files, ...programs]
    for (const { file, code } of all) writeFileSync(path.join(project, file), code)
    await run('npx', ['tsc', ...TYPE_CHECK, ...all.map(({ file }) => file)], project, env)
    const own = { ...env, ...addresses, DATABASE_URL: database.url }
    await run(process.execPath, ['setup.ts'], project, own)
    await runPrograms(page, programs, project, own)
  } finally {
    await remove()
    await database.drop()
  }
  say(`docs/${page.name}.md, with ${description}`)
}

/** Runs the programs of all pages, each in a folder of its own. */
export async function runBrokerPages(folder, registry, env) {
  const failures = []
  const waiting = [...PAGES]
  const lane = async () => {
    for (let page = waiting.shift(); page !== undefined; page = waiting.shift()) {
      try {
        await runPage(page, folder, registry, env)
      } catch (error) {
        failures.push(`docs/${page.name}.md: ${error.message}`)
      }
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  if (failures.length > 0) throw new Error(failures.join('\n'))
}
