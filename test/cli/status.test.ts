import { beforeAll, expect, test } from 'vitest'
import { until } from '../support/worlds/until.ts'
import { ended, startTxbox, txbox } from './run-txbox.ts'
import { claims, parked, useShop } from './use-shop.ts'

const shop = useShop()

beforeAll(async () => {
  await shop.sql(claims(20, 30))
  await shop.sql(`insert into txbox.outbox (shard, id, topic, content_type, headers, payload, created_at)
    select n, n::text, 't', 'text/plain', '{}', 'x', now() - interval '90 seconds' from generate_series(1, 3) as n`)
  const waiting = { key: "'o1'", order_key: "'o1'" }
  await shop.sql(
    parked('head', { ...waiting, due_at: 'now()', attempts: '4', error: "'503 from\n the broker'" }),
  )
  await shop.sql(parked('next', waiting))
  await shop.sql(parked('later', { due_at: 'now()', deliver_at: 'now()' }))
  await shop.sql(parked('dead', { dead_at: 'now()' }))
  const queued = { topic: "'work'", order_key: "'k'" }
  await shop.sql(parked('first', { ...queued, due_at: "now() - interval '2 minutes'" }, 'queue'))
  await shop.sql(parked('second', queued, 'queue'))
  await shop.sql(`insert into txbox.leases (name, owner, term, expires_at) values
    ('outbox/00', 'relay-1', 9007199254740993, now() + interval '9 seconds'), ('outbox/01', 'relay-1', 2, now() + interval '9 seconds'),
    ('relay/relay-1', 'relay-1', 1, now() + interval '9 seconds'), ('outbox/02', 'relay-2', 2, now() - interval '5 minutes')`)
})

test('status shows backlog, parked, dead, leases and their owners, the inbox and the last collection', async () => {
  const { code, stdout, stderr } = await shop.run('status')
  expect([code, stderr]).toEqual([0, ''])
  const line = (name: string): string | undefined => stdout.split('\n').find((one) => one.startsWith(name))
  expect(line('backlog')).toMatch(/3 messages, the oldest 1 min \d+ s old$/)
  expect(line('parked')).toMatch(/ 2 messages$/)
  expect(line('scheduled')).toMatch(/ 1 message$/)
  expect(line('dead')).toMatch(/ 1 letter of the outbox$/)
  expect(line('inbox')).toMatch(/KiB; 20 expired$/)
  expect(line('collected')).toMatch(/never$/)
  expect(line('relay-1')).toMatch(/^relay-1 +2 +for [78] s/)
  expect(line('relay-2')).toMatch(/^relay-2 +1 +expired 5 min .*ago$/)
  expect(line('o1')).toMatch(/^o1 +orders +head +4 +1 +503 from the broker$/)
  expect(line('work')).toMatch(/^work +1 +2 min.* +1 +0 +0 +0$/)
  // There are no colors, because the output is not a terminal.
  expect(stdout).not.toContain('\u001B')
})

test('status --json prints the same figures for programs, with the last collection', async () => {
  await shop.run('gc')
  const { stdout } = await shop.run('status', '--json')
  expect(stdout.trim().split('\n').length).toBe(1)
  expect(JSON.parse(stdout)).toMatchObject({
    backlog: { count: 3, atLeast: false },
    parked: { count: 2 },
    scheduled: { count: 1 },
    dead: { count: 1 },
    expired: { count: 0 },
    leases: [{ name: 'outbox/00', owner: 'relay-1', term: '9007199254740993' }, {}, {}, {}],
    lastCollection: { inbox: 20, deadLetters: 0 },
    queues: [{ name: 'work', due: { count: 1, atLeast: false }, waiting: { count: 1 } }],
    blockingKeys: [{ key: 'o1', id: 'head', attempts: 4, waiting: 1, error: '503 from\n the broker' }],
  })
  expect((await shop.run('status')).stdout).toMatch(/collected +\d+ m?s ago: 20 claims and 0 dead letters in/)
})

test('status --watch repeats the figures until Ctrl-C', async () => {
  const child = startTxbox(['status', '--watch', '0.2', '--json', '--database', shop.url])
  const end = ended(child)
  let lines = 0
  child.stdout?.on('data', (chunk: Buffer) => (lines += chunk.toString().split('\n').length - 1))
  await until(
    async () => lines >= 2,
    () => 'it shows it twice',
  )
  child.kill('SIGINT')
  expect((await end).code).toBe(0)
})

test('status prints colors on a terminal that supports them', async () => {
  const { stdout } = await txbox(['status', '--database', shop.url], { NO_COLOR: '', FORCE_COLOR: '1' })
  expect(stdout).toContain('\u001B[31m1 letter')
})
