import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { Proxy } from '../support/worlds/proxy.ts'
import { txbox } from './run-txbox.ts'
import { parked, useShop } from './use-shop.ts'

const shop = useShop()

interface Answer {
  readonly healthy: boolean
  readonly findings: readonly { check: string; verdict: string; found: string; advice?: string }[]
}

async function doctor(...args: string[]): Promise<Answer & { code: number | null }> {
  const { code, stdout, stderr } = await shop.run('doctor', '--json', ...args)
  expect(stderr).toBe('')
  return { code, ...(JSON.parse(stdout) as Answer) }
}

async function finding(check: string): Promise<Answer['findings'][number]> {
  return (await doctor()).findings.find((one) => one.check === check)!
}

test('doctor finds fresh tables in order', async () => {
  const { code, healthy, findings } = await doctor()
  expect([code, healthy]).toEqual([0, true])
  // The server belongs to someone else and may have settings that doctor warns about.
  const ours = findings.filter(
    ({ check }) => !['durability', 'autovacuum', 'notify', 'vacuum horizon'].includes(check),
  )
  expect(ours.filter(({ verdict }) => verdict !== 'ok').map(({ check }) => check)).toEqual(['relay'])
  const { stdout } = await shop.run('doctor')
  expect(stdout).toMatch(/^ok {7}server {11}PostgreSQL \d+/)
})

test('doctor without tables names the command, and fails', async () => {
  const { code, healthy, findings } = await doctor('--schema', 'nowhere')
  expect([code, healthy]).toEqual([1, false])
  expect(findings.find(({ check }) => check === 'revision')).toMatchObject({
    verdict: 'problem',
    advice: "Run 'npx txbox migrate --schema nowhere'.",
  })
})

const sicknesses: [string, string, string, string, RegExp][] = [
  [
    'a missing index',
    'indexes',
    'drop index txbox.inbox_expires_at',
    'create index inbox_expires_at on txbox.inbox (expires_at)',
    /missing or invalid: inbox_expires_at/,
  ],
  [
    'a sequence that caches',
    'order',
    'alter sequence txbox.outbox_seq cache 50',
    'alter sequence txbox.outbox_seq cache 1',
    /outbox_seq has cache 50/,
  ],
  [
    'another collation',
    'collations',
    'alter table txbox.inbox alter consumer type text collate "und-x-icu"',
    'alter table txbox.inbox alter consumer type text collate "C"',
    /inbox\.consumer has collation/,
  ],
  [
    'a backlog that nobody relays',
    'relay',
    "insert into txbox.outbox (shard, id, topic, content_type, headers, payload, created_at) values (0, 'x', 't', 'c', '{}', 'x', now() - interval '1 hour')",
    'delete from txbox.outbox',
    /no relay is running; 1 message waits, the oldest for 1 h/,
  ],
  [
    'a lease that expired without a new owner',
    'leases',
    "insert into txbox.leases (name, owner, expires_at) values ('outbox/00', 'dead-relay', now() - interval '10 minutes')",
    'delete from txbox.leases',
    /1 lease expired without a new owner; the last owner was dead-relay/,
  ],
  [
    'a key that is blocked',
    'keys',
    parked('head', { order_key: "'o1'", key: "'o1'", due_at: 'now()', attempts: '3' }),
    'delete from txbox.parked',
    /'o1' by message head \(attempt 3, 0 waiting behind it\)/,
  ],
  [
    'keys of queues that are stuck',
    'queue keys',
    parked('m1', { topic: "'work'", order_key: "'o1'" }, 'queue'),
    'delete from txbox.queue',
    /^stuck: 'o1' of queue 'work' \(1 message, the first is m1\)$/,
  ],
  [
    'a missing index of the queues',
    'indexes',
    'alter index txbox.queue_order rename to hidden',
    'alter index txbox.hidden rename to queue_order',
    /missing or invalid: queue_order/,
  ],
  [
    'dead letters',
    'dead letters',
    parked('dead', { dead_at: 'now()' }),
    'delete from txbox.parked',
    /^1 dead letter of the outbox$/,
  ],
  [
    'dead letters of queues',
    'dead letters',
    parked('dead', { topic: "'work'", dead_at: 'now()' }, 'queue'),
    'delete from txbox.queue',
    /^1 dead letter of queue 'work'$/,
  ],
]

test.for(sicknesses)('doctor reports %s, and says what to do', async ([, check, hurt, heal, expected]) => {
  await shop.sql(hurt)
  const sick = await finding(check)
  await shop.sql(heal)
  expect(sick.verdict).toMatch(/warning|problem/)
  expect(sick.found).toMatch(expected)
  expect(sick.advice).toBeTruthy()
  expect((await finding(check)).verdict).toMatch(/ok|note/)
})

test('N1 N2 doctor reports a publisher that cannot reach its broker', async () => {
  const { code, findings } = await doctor('--publisher', 'amqp://u:secret@127.0.0.1:1')
  expect(code).toBe(1)
  const publisher = findings.find(({ check }) => check === 'publisher')
  expect(publisher).toMatchObject({ verdict: 'problem', advice: expect.stringMatching(/wait in the outbox/) })
  expect(publisher?.found).toMatch(/^Cannot connect to RabbitMQ at 127.0.0.1:1.*ECONNREFUSED/)
  expect(publisher?.found).not.toContain('secret')
  expect((await doctor('--publisher', 'stdout:')).findings.at(-1)).toMatchObject({ verdict: 'note' })
})

test('doctor does not report a relay that was killed and replaced', async () => {
  await shop.sql(`insert into txbox.leases (name, owner, expires_at) values
    ('relay/killed', 'killed', now() - interval '10 minutes'), ('outbox/00', 'heir', now() + interval '1 minute')`)
  expect((await finding('leases')).verdict).toBe('ok')
  expect((await finding('relay')).verdict).toBe('ok')
  const { stdout } = await shop.run('status')
  expect(stdout).not.toContain('killed')
  await shop.sql('delete from txbox.leases')
})

test('doctor reports the connection that holds back the vacuum horizon', async () => {
  const client = new Client({ connectionString: shop.url, application_name: 'nightly report' })
  await client.connect()
  onTestFinished(() => client.end())
  await client.query('begin isolation level repeatable read')
  await client.query('select 1')
  const { findings } = await doctor('--long-transaction-ms', '0')
  const horizon = findings.find(({ check }) => check === 'vacuum horizon')
  expect(horizon).toMatchObject({ verdict: 'warning', advice: expect.stringMatching(/End that transaction/) })
  expect(horizon?.found).toMatch(/\(nightly report\), idle in transaction for \d+ m?s/)
})

test('doctor reports that it receives no notifications', async () => {
  const url = new URL(shop.url)
  const proxy = await Proxy.to({ host: url.hostname, port: Number(url.port || 5432) })
  onTestFinished(() => proxy.close())
  url.host = `127.0.0.1:${proxy.address.port}`
  proxy.garble(/listen(?= txbox_doctor)/)
  const { stdout } = await txbox(['doctor', '--json', '--database', url.href])
  const { findings } = JSON.parse(stdout) as Answer
  expect(findings.find(({ check }) => check === 'listen')).toMatchObject({
    verdict: 'warning',
    found: expect.stringMatching(/may break LISTEN$/),
    advice: expect.stringMatching(/find messages by polling\..*the server's own address/),
  })
})

test('doctor warns of a queue from which nobody receives', async () => {
  const due = (ago: string): Record<string, string> => ({
    topic: "'work'",
    due_at: `now() - interval '${ago}'`,
  })
  await shop.sql(parked('young', due('9 minutes'), 'queue'))
  expect((await finding('queues')).verdict).toBe('ok')
  await shop.sql(parked('old', due('11 minutes'), 'queue'))
  expect(await finding('queues')).toMatchObject({
    verdict: 'warning',
    found: expect.stringMatching(/'work' \(2 messages, the oldest due for 11 min/),
  })
  await shop.sql('delete from txbox.queue')
})
