import { beforeEach, expect, test } from 'vitest'
import { parked, useShop } from './use-shop.ts'

const shop = useShop()

function dead(id: string, error: string, more: Record<string, string> = {}, table = 'parked'): string {
  const died = `now() - interval '1 hour' + ${Number(id.slice(1))} * interval '1 second'`
  return parked(id, { dead_at: died, attempts: '9', error: `'${error}'`, ...more }, table)
}

async function ids(from = 'dead_at is not null'): Promise<readonly string[]> {
  const { rows } = await shop.sql(`select id from txbox.parked where ${from} order by id`)
  return rows.map((row: { id: string }) => row.id)
}

beforeEach(async () => {
  await shop.sql('delete from txbox.parked; delete from txbox.queue; delete from txbox.leases')
  await shop.sql(dead('m1', 'order 17 of m1: connect ECONNREFUSED 10.0.0.1:5672\nat a'))
  await shop.sql(dead('m2', 'order 4711 of m2: connect ECONNREFUSED 10.0.0.12:5672\nat b'))
  await shop.sql(dead('m3', 'no route', { topic: "'invoices'" }))
  await shop.sql(
    dead('m4', 'order 9 of 0199d3c0-aaaa-7bbb-8ccc-0123456789ab: connect ECONNREFUSED 10.0.0.1:5672'),
  )
})

test('list --by error counts dead letters by the first line of their errors, without numbers and ids', async () => {
  const { code, stdout, stderr } = await shop.run('dead-letters', 'list', '--by', 'error')
  expect([code, stderr]).toEqual([0, ''])
  const [, first, second, empty, total] = stdout.split('\n')
  expect(first).toMatch(/^3 +order 9 of 0199d3c0\S+: connect ECONNREFUSED 10\.0\.0\.1:5672 +\d{4}-\S+Z +m4$/)
  expect(second).toMatch(/^1 +no route +\S+Z +m3$/)
  expect([empty, total]).toEqual(['', '2 kinds of errors of 4 dead letters.'])
  const json = (await shop.run('dead-letters', 'list', '--by', 'error', '--json')).stdout.trim().split('\n')
  expect(json.map((line) => JSON.parse(line) as unknown)).toMatchObject([
    { count: 3, id: 'm4', topics: ['orders'] },
    { count: 1, id: 'm3', topics: ['invoices'], error: 'no route' },
  ])
  expect((await shop.run('dead-letters', 'list', '--by', 'error', '--topic', 'invoices')).stdout).toContain(
    '1 kind of errors of 1 dead letter.',
  )
})

test('--error selects dead letters whose error contains the text, in list, redrive and discard', async () => {
  const { stdout } = await shop.run('dead-letters', 'list', '--error', 'ECONNREFUSED', '--json')
  expect(stdout.match(/"id":"m\d"/g)).toEqual(['"id":"m1"', '"id":"m2"', '"id":"m4"'])
  const page = await shop.run('dead-letters', 'list', '--error', 'ECONNREFUSED', '--limit', '2')
  expect(page.stdout).toMatch(/Pass --after m2$/m)
  expect((await shop.run('dead-letters', 'list', '--error', 'nothing')).stdout).toBe('No dead letters.\n')
  const redriven = await shop.run('dead-letters', 'redrive', '--error', '4711', '--yes')
  expect([redriven.code, redriven.stdout]).toEqual([0, 'Put back 1 dead letter.\n'])
  expect(await ids()).toEqual(['m1', 'm3', 'm4'])
  const none = await shop.run('dead-letters', 'discard', 'm3', '--error', 'ECONNREFUSED', '--yes')
  expect([none.code, none.stderr]).toEqual([
    1,
    expect.stringContaining("No dead letter with the id 'm3' matches"),
  ])
  expect((await shop.run('dead-letters', 'discard', '--error', 'route', '--yes')).stdout).toBe(
    'Deleted 1 dead letter.\n',
  )
  expect(await ids()).toEqual(['m1', 'm4'])
})

test('--error searches the newest 10,000 dead letters, and the command says so', async () => {
  await shop.sql(`insert into txbox.parked (id, shard, topic, content_type, headers, payload, dead_at, error)
    select 'new' || n, 0, 'orders', 't', '{}', 'x', now(), 'new' from generate_series(1, 10000) as n`)
  const bound = 'Only the newest 10,000 dead letters were searched.'
  const listed = await shop.run('dead-letters', 'list', '--by', 'error')
  expect(listed.stdout).toContain(`1 kind of errors of 10,000 dead letters. ${bound}`)
  const redriven = await shop.run('dead-letters', 'redrive', '--error', 'ECONNREFUSED', '--yes')
  expect([redriven.stdout, redriven.stderr]).toEqual(['Put back 0 dead letters.\n', `${bound}\n`])
})

test('O4 retry tries parked messages now, without a question', async () => {
  const later = "now() + interval '1 hour'"
  await shop.sql(parked('p1', { due_at: later, attempts: '3', error: "'busy'" }))
  await shop.sql(parked('p2', { due_at: later, attempts: '3', error: "'gone'" }))
  const retried = await shop.run('dead-letters', 'retry', '--error', 'busy')
  expect([retried.code, retried.stdout, retried.stderr]).toEqual([0, 'Made 1 parked message due now.\n', ''])
  expect(await ids('due_at <= now()')).toEqual(['p1'])
  expect((await shop.run('dead-letters', 'retry', 'p2')).stdout).toBe('Made 1 parked message due now.\n')
  const none = await shop.run('dead-letters', 'retry', 'm1')
  expect([none.code, none.stderr]).toEqual([
    1,
    expect.stringContaining("No parked message with the id 'm1' matches"),
  ])
  expect((await shop.run('dead-letters', 'retry')).code).toBe(2)
})

test('list names the queues with dead letters, and an unknown queue is refused', async () => {
  await shop.sql(dead('q1', 'no', { topic: "'work'" }, 'queue'))
  await shop.sql(dead('q2', 'no', { topic: "'work'" }, 'queue'))
  const all = await shop.run('dead-letters', 'list')
  expect(all.stdout).toMatch(
    /^order 17 of m1: connect ECONNREFUSED 10\.0\.0\.1:5672 +m1 [^]*^work +2$[^]*Pass --queue <name> to list those of a queue\.$/m,
  )
  expect((await shop.run('dead-letters', 'list', '--topic', 'orders')).stdout).not.toContain('work')
  await shop.sql('delete from txbox.parked')
  expect((await shop.run('dead-letters', 'list')).stdout).toMatch(
    /^No dead letters of the outbox\.\n[^]*work +2$/m,
  )
  expect((await shop.run('dead-letters', 'list', '--queue', 'work')).stdout).toMatch(/^no +q1 +work/m)
  for (const command of ['list', 'redrive', 'discard', 'retry']) {
    const { code, stdout, stderr } = await shop.run('dead-letters', command, '--queue', 'wrok')
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toBe(
      "txbox: There is no queue 'wrok': it has no messages, and nobody has received from it. The queues are 'work'.\n",
    )
  }
})

test('status shows few claims without "about"', async () => {
  await shop.sql(
    "insert into txbox.inbox (consumer, key, processed_at, expires_at) values ('c', 'k', now(), now() + interval '1 day')",
  )
  expect((await shop.run('status')).stdout).toMatch(/^inbox +1 claim, /m)
})
