import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Client } from 'pg'
import { PgBoss } from 'pg-boss'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import { verifyWebhook } from '@txbox/webhook'
import { SECRETS } from '../support/subjects/signed-webhooks.ts'
import { WebhookEndpoint } from '../support/subjects/webhook-endpoint.ts'
import { txbox } from './run-txbox.ts'
import { useShop } from './use-shop.ts'

const shop = useShop()
const outbox = createOutbox({ database: postgres() })
let folder = ''
beforeAll(async () => void (folder = await mkdtemp(path.join(tmpdir(), 'txbox-'))))
afterAll(() => rm(folder, { recursive: true }))

async function publish(...messages: Parameters<typeof outbox.publish>[1][]): Promise<void> {
  const client = new Client(shop.url)
  await client.connect()
  await client.query('BEGIN')
  for (const message of messages) await outbox.publish(client, message)
  await client.query('COMMIT')
  await client.end()
}

const relay = (publisher: string, args: readonly string[] = ['--drain'], env: Record<string, string> = {}) =>
  txbox(['relay', '--publisher', publisher, ...args], { DATABASE_URL: shop.url, ...env })

async function file(name: string, content: string): Promise<string> {
  const place = path.join(folder, name)
  await writeFile(place, content)
  return place
}

test('a webhook endpoint gets messages with their signature, and as CloudEvents', async () => {
  const endpoint = await WebhookEndpoint.start((_, response) => void response.writeHead(204).end())
  const url = endpoint.url('/in?tenant=north')
  await publish({ topic: 'order.paid', payload: { n: 1 } })
  const secret = await file('secret', SECRETS.standard)
  const { code, stderr } = await relay(url, [
    '--drain',
    '--webhook-secret-file',
    secret,
    '--cloudevents',
    '/a,b',
  ])
  expect(code, stderr).toBe(0)
  const [{ headers, payload, path: place }] = endpoint.arrived() as [
    ReturnType<typeof endpoint.arrived>[number],
  ]
  verifyWebhook({ headers, body: payload }, { scheme: 'standard', secret: SECRETS.standard })
  expect([place, headers['ce-source'], headers['ce-type']]).toEqual([
    '/in?tenant=north',
    '/a,b',
    'order.paid',
  ])
})

test('PUBLISHER_URL stands in for the option, and variables are taken from the environment', async () => {
  const endpoint = await WebhookEndpoint.start((_, response) => void response.writeHead(204).end())
  await publish({ topic: 'order.paid', payload: 1 })
  const env = { DATABASE_URL: shop.url, PUBLISHER_URL: endpoint.url('/${PLACE}'), PLACE: 'a b' }
  expect(await txbox(['relay', '--drain'], env)).toMatchObject({ code: 0 })
  expect(endpoint.arrived().map((each) => each.path)).toEqual(['/a%20b'])
})

test('pg-boss in the database of the outbox, and in another one, gets jobs', async () => {
  const boss = new PgBoss({ connectionString: shop.url, supervise: false, schedule: false })
  boss.on('error', () => undefined)
  await boss.start()
  onTestFinished(() => boss.stop({ graceful: false }))
  await boss.createQueue('jobs')
  for (const url of ['pg-boss:?data=payload', shop.url.replace('postgres:', 'pg-boss:')]) {
    await publish({ topic: 'jobs', payload: { n: 1 } })
    const { code, stderr } = await relay(url)
    expect([code, stderr]).toEqual([0, expect.stringContaining('1 message published')])
  }
  const jobs = await boss.fetch<{ payload?: unknown }>('jobs', { batchSize: 10 })
  expect(jobs.map(({ data }) => data.payload ?? data)).toEqual([{ n: 1 }, { n: 1 }])
  expect((await relay('pg-boss:', ['--check'])).stderr).toContain('The database and the publisher are ready.')
  const nowhere = await relay('pg-boss:?schema=nowhere', ['--check'])
  expect([nowhere.code, nowhere.stderr]).toEqual([
    1,
    expect.stringMatching(/^txbox: pg-boss did not answer.*has no tables of pg-boss: start a worker first/),
  ])
})

test.for([
  ['a publisher', 'export default publisher'],
  ['a function', 'export default async () => publisher'],
])('module: the default export of a file is %s', async ([, last]) => {
  const written = path.join(folder, 'written')
  const program = `import { appendFileSync } from 'node:fs'
    const publisher = { publish: async (messages) => messages.map(({ topic }) => {
      appendFileSync(${JSON.stringify(written)}, topic + '\\n')
      return { status: 'accepted' }
    }) }
    ${last}`
  const place = await file(`publisher-${last!.length}.mjs`, program)
  await publish({ topic: 'order.paid', payload: 1 })
  expect(await relay(`module:${path.relative(process.cwd(), place)}`)).toMatchObject({ code: 0 })
  const check = await relay(`module:${place}`, ['--check'])
  expect([check.code, check.stderr]).toEqual([0, expect.stringContaining('This publisher cannot be checked')])
})

test('--topic-map gives messages other topics', async () => {
  const map = await file('map.json', '{"order.paid": "orders", "*": "events"}')
  await publish({ topic: 'order.paid', key: 'k', payload: 1 }, { topic: 'note', key: 'k', payload: 'é' })
  const { stdout, stderr } = await relay('stdout:', [
    '--drain',
    '--topic-map',
    map,
    '--cloudevents',
    '/a,structured',
  ])
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as object)
  expect(lines, stderr).toMatchObject([
    { topic: 'orders', payload: { type: 'order.paid', source: '/a', data: 1 } },
    { topic: 'events', payload: { type: 'note', data: 'é' } },
  ])
})

test('--check publishes nothing', async () => {
  await publish({ topic: 'order.paid', payload: 1 })
  expect(await relay('stdout:', ['--check'])).toMatchObject({ code: 0, stdout: '' })
  expect((await shop.sql('delete from txbox.outbox')).rowCount).toBe(1)
  const gone = await txbox(['relay', '--check', '--publisher', 'stdout:'], {
    DATABASE_URL: `${shop.url}_gone`,
  })
  expect(gone.code).toBe(1)
})

test.for<[string, string, string[], number, RegExp]>([
  [
    'an unknown query name',
    'kafka://h?acks=1',
    [],
    2,
    /does not know \?acks=; it knows: clientId, compression/,
  ],
  ['a query of stdout', 'stdout:?acks=1', [], 2, /stdout: does not know \?acks=; it knows: none/],
  ['a query of a file', 'module:./a.mjs?acks=1', [], 2, /module: does not know \?acks=; it knows: none/],
  ['a password without TLS', 'kafka://u:hidden-word@h', [], 2, /use kafka\+ssl/],
  [
    'an option out of bounds',
    'kafka://h?maxMessageBytes=0',
    [],
    2,
    /'maxMessageBytes' must be a whole number/,
  ],
  [
    'an unknown scheme',
    'mqtt://u:hidden-word@h',
    [],
    2,
    /--publisher mqtt:… is not supported; expected amqp/,
  ],
  ['http elsewhere', 'http://u:hidden-word@shop.example/', [], 2, /--allow-http/],
  ['a secret file without webhooks', 'stdout:', ['--webhook-secret-file', 'a'], 2, /is for webhooks/],
  ['--allow-http without http', 'stdout:', ['--allow-http'], 2, /is for http:/],
  ['no file of topics', 'stdout:', ['--topic-map', 'nowhere.json'], 2, /cannot be read: ENOENT/],
  [
    'topics that are no object',
    'stdout:',
    ['--topic-map', 'tsconfig.json'],
    2,
    /must be a JSON object such as/,
  ],
  ['no module', 'module:', [], 2, /needs a file, such as module:/],
  ['a module that is nowhere', 'module:./nowhere.mjs', [], 1, /Cannot find module/],
  ['a source that is no URI', 'stdout:', ['--cloudevents', 'a b'], 2, /'source' must be a URI reference/],
  ['binary mode of stdout', 'stdout:', ['--cloudevents', '/a,binary'], 2, /no binding for binary mode/],
  ['--check with --drain', 'stdout:', ['--check', '--drain'], 2, /Give one of them/],
])('%s: one line says what is wrong, without a password', async ([, url, args, expectedCode, text]) => {
  const { code, stdout, stderr } = await relay(url, args)
  expect([code, stdout]).toEqual([expectedCode, ''])
  expect(stderr).toMatch(/^txbox: .*\n$/)
  expect(stderr).toMatch(text)
  expect(stderr).not.toContain('hidden')
})
