// Checks that the programs of docs/webhooks.md run as pasted: starts each on a database of its own, sends deliveries, and
// checks the answers and the rows. The body of GitHub is a real one, of @octokit/webhooks-examples, and its id that of GitHub's
// documentation; the events of Stripe were written after the example in Stripe's documentation. All are signed with secrets of this check.
import { createHmac } from 'node:crypto'
import { createRequire } from 'node:module'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'
import { NEST, blocksOf, end, run, say, start } from './page-programs.mjs'
import { createDatabase } from '../test/support/engines/servers/postgres-databases.ts'

export const WEBHOOKS_PAGE = 'docs/webhooks.md'
const SECRETS = { STRIPE_WEBHOOK_SECRET: 'whsec_of_the_page', GITHUB_WEBHOOK_SECRET: 'secret of the page' }
/** The program is compiled apart from a project, and imports the other files of the page by their names in TypeScript. */
const NEST_APART = [...NEST, '--ignoreConfig', '--rewriteRelativeImportExtensions']
const DEADLINE_MS = 60_000

/** An event as Stripe's documentation shows it. */
function stripeEvent(type, created, object, id = `evt_${created}`) {
  const event = {
    id,
    object: 'event',
    api_version: '2026-08-27',
    created,
    data: { object },
    livemode: false,
    type,
  }
  return JSON.stringify(
    { ...event, pending_webhooks: 1, request: { id: null, idempotency_key: null } },
    null,
    2,
  )
}

function stripeRequest(body, secret = SECRETS.STRIPE_WEBHOOK_SECRET) {
  const at = Math.floor(Date.now() / 1000)
  const signature = createHmac('sha256', secret).update(`${at}.${body}`).digest('hex')
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'stripe-signature': `t=${at},v1=${signature}`,
  }
  return { method: 'POST', headers, body }
}

function unsignedRequest() {
  return { method: 'POST', headers: { 'content-type': 'application/json' }, body: PAID }
}

/** The first real delivery of an opened issue. */
function githubRequest() {
  const file = createRequire(import.meta.url).resolve('@octokit/webhooks-examples')
  const { examples } = JSON.parse(readFileSync(file, 'utf8')).find(({ name }) => name === 'issues')
  const body = JSON.stringify(examples.find(({ action }) => action === 'opened'))
  const signature = createHmac('sha256', SECRETS.GITHUB_WEBHOOK_SECRET).update(body).digest('hex')
  const headers = {
    'content-type': 'application/json',
    'x-github-event': 'issues',
    'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
    'x-hub-signature-256': `sha256=${signature}`,
  }
  return { method: 'POST', headers, body }
}

const PAID = stripeEvent('payment_intent.succeeded', 1_793_738_400, {
  id: 'pi_1',
  object: 'payment_intent',
  amount: 2000,
})

/** What a program must answer, in this order. */
const DELIVERIES = [
  ['a genuine webhook', '/stripe', () => stripeRequest(PAID), 204],
  ['the same webhook again', '/stripe', () => stripeRequest(PAID), 204],
  ['a forged webhook', '/stripe', () => stripeRequest(PAID, 'another secret'), 401],
  ['a webhook without a signature', '/stripe', unsignedRequest, 401],
  ['a webhook that is no JSON', '/stripe', () => stripeRequest('{'), 400],
  // Another event with the same payment: the handler fails, and the provider must try again.
  ['a handler that fails', '/stripe', () => stripeRequest(PAID.replace('evt_1793738400', 'evt_2')), 500],
  ['a genuine webhook of GitHub', '/github', githubRequest, 204],
  ['the same webhook of GitHub again', '/github', githubRequest, 204],
  ['a changed webhook of GitHub', '/github', () => ({ ...githubRequest(), body: '{}' }), 401],
]

/** Serves the functions of the route handlers, as Next.js does. */
const SERVER_OF_ROUTES = `import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'
import * as github from './github-route.ts'
import * as stripe from './stripe-route.ts'
const routes = { '/stripe': stripe, '/github': github }
createServer(async (request, response) => {
  try {
    const { method, headers, url } = request
    const answer = await routes[url].POST(new Request('http://localhost' + url, { method, headers, body: await buffer(request) }))
    response.writeHead(answer.status).end()
  } catch {
    response.writeHead(500).end()
  }
}).listen(Number(process.env.PORT))
`

async function freePort() {
  const server = createServer()
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address()
  await new Promise((resolve) => server.close(resolve))
  return port
}

async function listening(url, program) {
  for (const from = Date.now(); Date.now() - from < DEADLINE_MS; await pause(50)) {
    const answer = await fetch(url, { method: 'POST', body: '{}' }).catch(() => undefined)
    if (answer !== undefined) return
  }
  throw new Error(`'${program.name}' does not listen. It printed:\n${program.output}`)
}

async function withDatabase(env, work) {
  const database = await createDatabase(env.DATABASE_URL)
  const client = new Client({ connectionString: database.url })
  await client.connect()
  try {
    return await work(
      { ...env, ...SECRETS, DATABASE_URL: database.url },
      async (text) => (await client.query(text)).rows,
    )
  } finally {
    await client.end()
    await database.drop()
  }
}

async function runFramework(project, file, env, deliveries) {
  await withDatabase(env, async (own, sql) => {
    const port = await freePort()
    const program = start(process.execPath, [file], project, { ...own, PORT: String(port) })
    await listening(`http://127.0.0.1:${port}/stripe`, program)
    for (const [name, to, request, expected] of deliveries) {
      const { status } = await fetch(`http://127.0.0.1:${port}${to}`, request())
      if (status !== expected)
        throw new Error(`${file} answered ${status} to ${name}, and not ${expected}:\n${program.output}`)
    }
    await end(program, 'SIGTERM')
    const [{ payments, issues }] = await sql(
      'select (select count(*)::int from payments) as payments, (select count(*)::int from issues) as issues',
    )
    if (payments !== 1 || issues !== 1)
      throw new Error(`${file} has ${payments} payments and ${issues} issues.`)
  })
  say(file)
}

const REQUEST_OF = (body) =>
  `{ headers: ${JSON.stringify(stripeRequest(body).headers)}, body: Buffer.from(${JSON.stringify(body)}) }`

/** Programs that call the functions of the other blocks, and what each prints. */
function drivers() {
  const subscription = (created, status) =>
    stripeEvent('customer.subscription.updated', created, { id: 'sub_1', object: 'subscription', status })
  return [
    {
      file: 'slow-work.test.ts',
      code: `import { receive, receipts } from './slow-work.ts'
import { pool } from './webhooks.ts'
await receipts.start()
const handled = new Promise((resolve) => receipts.on('handled', resolve))
const request = ${REQUEST_OF(PAID)}
console.log(await receive(request), await receive(request))
await handled
await receipts.stop()
console.log((await pool.query('select * from receipts')).rows.length)
await pool.end()`,
      expected: 'processed duplicate\n1',
    },
    {
      file: 'out-of-order.test.ts',
      code: `import { receive } from './out-of-order.ts'
import { pool } from './webhooks.ts'
console.log(await receive(${REQUEST_OF(subscription(1_793_738_402, 'active'))}))
console.log(await receive(${REQUEST_OF(subscription(1_793_738_401, 'incomplete'))}))
console.log((await pool.query('select state from subscriptions')).rows[0].state)
await pool.end()`,
      expected: 'processed\nprocessed\nactive',
    },
  ]
}

/** Runs the programs of the page in a folder that has the packages. */
export async function runWebhooksPage(project, env) {
  const blocks = blocksOf(WEBHOOKS_PAGE).filter(({ file }) => file !== undefined)
  for (const { file, code } of blocks) writeFileSync(path.join(project, file), code)
  writeFileSync(path.join(project, 'package.json'), '{ "private": true, "type": "module" }\n')
  writeFileSync(path.join(project, 'serve-routes.ts'), SERVER_OF_ROUTES)
  await run('npx', ['tsc', ...NEST_APART, ...blocks.map(({ file }) => file)], project, env)
  const programs = ['with-express.ts', 'with-fastify.ts', 'with-hono.ts', 'serve-routes.ts']
  for (const file of [...programs, path.join('dist', 'with-nestjs.js')]) {
    await runFramework(project, file, env, DELIVERIES)
  }
  for (const { file, code, expected } of drivers()) {
    writeFileSync(path.join(project, file), code)
    await withDatabase(env, async (own) => {
      const printed = await run(process.execPath, [file], project, own)
      if (printed.trim() !== expected)
        throw new Error(`${file} had to print '${expected}', and printed:\n${printed}`)
    })
    say(file)
  }
}
