import { createConnection } from 'mysql2/promise'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { txbox, type Ended } from '../cli/run-txbox.ts'
import { createDatabase } from '../support/engines/servers/mysql-databases.ts'

let url = ''
let drop: (() => Promise<void>) | undefined

beforeAll(async () => {
  const [serverUrl] = inject('needs').map((name) => inject('servers')[name])
  ;({ url, drop } = await createDatabase(serverUrl ?? ''))
})
afterAll(() => drop?.())

function run(...args: string[]): Promise<Ended> {
  return txbox(args, { DATABASE_URL: url })
}

async function json(...args: string[]): Promise<unknown> {
  const { stdout, stderr } = await run(...args, '--json')
  expect(stderr).toBe('')
  return JSON.parse(stdout)
}

async function sql(text: string): Promise<void> {
  const connection = await createConnection(url)
  await connection.query(text)
  await connection.end()
}

/** One file, one database: each test continues from the one before it. */
test('migrate lists the migrations that it would apply, applies them, and then finds nothing to do', async () => {
  const { pending } = (await json('migrate', '--dry-run')) as { pending: string[] }
  expect(pending[0]).toBe('0001_inbox')
  expect((await run('migrate')).stdout).toBe(`Applied ${pending.join(', ')}.\n`)
  expect((await run('migrate', '--dry-run')).stdout).toBe('The tables are up to date.\n')
})

test('doctor finds fresh tables in order, and names the server', async () => {
  const { healthy, findings } = (await json('doctor')) as {
    healthy: boolean
    findings: { check: string; found: string }[]
  }
  expect(healthy).toBe(true)
  expect(findings[0]).toMatchObject({
    check: 'server',
    found: expect.stringMatching(inject('engine') === 'mariadb' ? /^MariaDB / : /^MySQL /),
  })
  expect((await run('doctor', '--prefix', 'nowhere_')).code).toBe(1)
})

test('gc removes expired rows, and status reports it', async () => {
  await sql(`insert into txbox_inbox (consumer, \`key\`, processed_at, expires_at) values
    ('c', 'old', utc_timestamp(6), utc_timestamp(6) - interval 1 hour), ('c', 'new', utc_timestamp(6), utc_timestamp(6) + interval 1 hour)`)
  expect((await run('gc', '--dry-run')).stdout).toMatch(/^Would remove 1 expired claim and 0 dead letters/)
  expect((await run('gc')).stdout).toMatch(/Removed 1 expired claim and 0 dead letters in/)
  expect(await json('status')).toMatchObject({ expired: { count: 0 }, lastCollection: { inbox: 1 } })
})

test('dead letters are listed, redriven and discarded', async () => {
  for (const id of ['a', 'b']) {
    await sql(`insert into txbox_parked (shard, id, topic, \`key\`, content_type, headers, payload, created_at, dead_at, attempts, error)
      values (0, '${id}', 'orders', 'ö', 'application/json', '{}', '{}', utc_timestamp(6), utc_timestamp(6), 3, 'refused')`)
  }
  expect((await run('dead-letters', 'list')).stdout).toMatch(/^refused +a +orders +ö +\S+Z +3$/m)
  expect(await json('dead-letters', 'show', 'b')).toMatchObject({ id: 'b', key: 'ö', attempts: 3 })
  expect((await run('dead-letters', 'redrive', 'a', '--yes')).stdout).toBe('Put back 1 dead letter.\n')
  expect((await run('dead-letters', 'discard', '--topic', 'orders', '--yes')).stdout).toBe(
    'Deleted 1 dead letter.\n',
  )
  expect(await json('status')).toMatchObject({ dead: { count: 0 }, parked: { count: 1 } })
})

test('--queue lists, redrives and discards dead letters of a stored queue', async () => {
  for (const id of ['a', 'b']) {
    await sql(`insert into txbox_queue (shard, id, topic, \`key\`, content_type, headers, payload, created_at, dead_at, attempts, error)
      values (0, '${id}', 'work', 'ö', 'application/json', '{}', '{}', utc_timestamp(6), utc_timestamp(6), 3, 'refused')`)
  }
  const ofWork = (...args: string[]): Promise<Ended> => run('dead-letters', ...args, '--queue', 'work')
  expect((await ofWork('list')).stdout).toMatch(/^refused +a +work +ö +\S+Z +3$/m)
  expect((await run('dead-letters', 'list', '--queue', 'other')).stderr).toMatch(
    /^txbox: There is no queue 'other'/,
  )
  expect((await ofWork('redrive', 'a', '--yes')).stdout).toBe('Put back 1 dead letter.\n')
  expect((await ofWork('discard', '--yes')).stdout).toBe('Deleted 1 dead letter.\n')
  expect((await ofWork('list')).stdout).toBe('No dead letters.\n')
})

test('--payload shows the payload, and discard --parked deletes a parked message', async () => {
  for (const [id, due, dead] of [
    ['dead', 'null', 'utc_timestamp(6)'],
    ['head', 'utc_timestamp(6)', 'null'],
    ['next', 'null', 'null'],
  ]) {
    await sql(`insert into txbox_parked (shard, id, topic, \`key\`, order_key, content_type, headers, payload, created_at, due_at, dead_at, attempts)
      values (1, '${id}', 'parked', 'k', ${id === 'dead' ? 'null' : "'k'"}, 'application/json', '{"a":"b"}', '{"n":1}', utc_timestamp(6), ${due}, ${dead}, 1)`)
  }
  expect(await json('dead-letters', 'show', 'dead', '--payload')).toMatchObject({
    headers: { a: 'b' },
    payload: { n: 1 },
  })
  const { stdout } = await run('dead-letters', 'discard', 'head', 'dead', '--parked', '--yes')
  expect(stdout).toBe('Deleted 1 parked message.\n')
  expect((await run('dead-letters', 'list', '--parked', '--topic', 'parked')).stdout).toMatch(
    /^ +next +parked +k +\S+Z +1$/m,
  )
})

test('an unreachable or refusing server causes one line of output without an address', async () => {
  for (const wrong of ['mysql://u:secret@127.0.0.1:1/d', url.replace('//root', '//nobody_there:secret')]) {
    const { code, stderr } = await txbox(['status'], { DATABASE_URL: wrong })
    expect(code).toBe(1)
    expect(stderr).not.toMatch(/secret|^\s+at /m)
    expect(stderr.trim().split('\n').length).toBe(1)
  }
})

test('local consumers get subscriptions, are listed, and are removed with their messages', async () => {
  expect((await run('consumers', 'add', 'billing', 'order.placed')).stdout).toBe(
    "Consumer 'billing' now gets order.placed.\n",
  )
  await sql(`insert into txbox_local_outbox (created_at, shard, consumer, id, type, content_type, headers, payload)
    values (utc_timestamp(6) - interval 1 hour, 3, 'billing', 'm', 'order.placed', 'text/plain', '{}', 'x')`)
  await sql(`insert into txbox_local_parked (created_at, dead_at, shard, consumer, id, content_type, headers, payload, error)
    values (utc_timestamp(6), utc_timestamp(6), 3, 'billing', 'd', 'text/plain', '{}', 'x', 'no')`)
  expect(await json('consumers', 'list')).toMatchObject({
    name: 'billing',
    types: ['order.placed'],
    waiting: { count: 1, atLeast: false },
    dead: { count: 1 },
    runsNow: false,
    oldestDue: { in: 'local', id: 'm', consumer: 'billing' },
  })
  expect(await json('dead-letters', 'list', '--consumer', 'billing')).toMatchObject({
    id: 'd',
    consumer: 'billing',
  })
  const refused = await run('consumers', 'remove', 'billing')
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('1 message would be left')])
  expect((await run('consumers', 'remove', 'billing', '--discard', '--yes')).stdout).toBe(
    "Ended all subscriptions of consumer 'billing'. Deleted 2 messages.\n",
  )
  expect((await run('consumers', 'list')).stdout).toBe('There are no local consumers.\n')
})
