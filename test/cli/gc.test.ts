import { beforeEach, expect, test } from 'vitest'
import { until } from '../support/worlds/until.ts'
import { ended, startTxbox } from './run-txbox.ts'
import { claims, parked, useShop } from './use-shop.ts'

const shop = useShop()

async function left(table: string): Promise<number> {
  return Number((await shop.sql(`select count(*)::int as n from txbox.${table}`)).rows[0].n)
}

beforeEach(async () => {
  await shop.sql(
    'delete from txbox.inbox; delete from txbox.parked; delete from txbox.waiting; delete from txbox.queue; delete from txbox.leases',
  )
  await shop.sql(claims(1500, 10))
  await shop.sql(parked('old', { dead_at: "now() - interval '40 days'" }))
  await shop.sql(parked('young', { dead_at: "now() - interval '2 days'" }))
})

test('gc reports which rows it will remove, removes them, and reports how many it removed', async () => {
  const { code, stdout, stderr } = await shop.run('gc')
  expect([code, stderr]).toEqual([0, ''])
  const [before, after] = stdout.trim().split('\n')
  expect(before).toBe('Removing 1,500 expired claims and 1 dead letter older than 30 d.')
  expect(after).toMatch(/^Removed 1,500 expired claims and 1 dead letter in \d+ (ms|s)/)
  expect([await left('inbox'), await left('parked')]).toEqual([10, 1])
})

test('gc reports how many records of redrives it has removed, if there are any', async () => {
  const record = `insert into txbox.redrives (redriven_at, dead_at, place, attempts, id, topic, redriven_by)
    values (now() - interval '40 days', now(), 1, 1, 'm', 't', 'me')`
  await shop.sql(record)
  const { stdout } = await shop.run('gc')
  expect(stdout).toMatch(
    /^Removed 1,500 expired claims and 1 dead letter, and 1 record of redrives and removals, in \d+ (ms|s)/m,
  )
  expect(await left('redrives')).toBe(0)
})

test('gc reports how many dead letters of version buffers it has removed, if there are any', async () => {
  await shop.sql(BUFFERED)
  const { stdout } = await shop.run('gc')
  expect(stdout).toMatch(
    /^Removed 1,500 expired claims and 1 dead letter, and 2 dead letters of version buffers, in \d+ (ms|s)/m,
  )
  expect(await left('waiting')).toBe(1)
})

const BUFFERED = `insert into txbox.waiting (consumer, key, from_version, to_version, kind, payload, dead_at, reason)
  select 'c', 'k', n, n + 1, 'number', '{}', case when n < 3 then now() - interval '40 days' end, 'too-old'
  from generate_series(1, 3) as n`

/** Handled messages of two queues, and one that is not handled. */
async function useQueues(): Promise<void> {
  for (const [n, topic] of ['a', 'b', 'b'].entries()) {
    await shop.sql(parked(`m${n}`, { topic: `'${topic}'`, shard: `${n}`, due_at: "'epoch'" }, 'queue'))
  }
  await shop.sql("insert into txbox.leases (name) values ('queue/a/00'), ('queue/b/01'), ('queue/b/02')")
  await shop.sql(parked('live', { topic: "'b'", due_at: 'now()' }, 'queue'))
}

test('gc reports how many rows of handled messages of queues it has removed, if there are any', async () => {
  await shop.sql(BUFFERED)
  await useQueues()
  const { stdout } = await shop.run('gc')
  const [before, after] = stdout.trim().split('\n')
  const others = '2 dead letters of version buffers, and 3 rows of handled messages of queues'
  expect(before).toBe(`Removing 1,500 expired claims and 1 dead letter older than 30 d, ${others}.`)
  expect(after).toMatch(
    new RegExp(`^Removed 1,500 expired claims and 1 dead letter, ${others}, in \\d+ (ms|s)`),
  )
  expect(await left('queue')).toBe(1)
})

test('gc --dry-run only counts', async () => {
  const human = await shop.run('gc', '--dry-run', '--dead-letter-retention-ms', '0')
  expect(human.stdout).toBe('Would remove 1,500 expired claims and 2 dead letters of any age.\n')
  await shop.sql(BUFFERED)
  await useQueues()
  const json = await shop.run('gc', '--dry-run', '--json', '--dead-letter-retention-ms', 'forever')
  const none = { count: 0, atLeast: false }
  expect(JSON.parse(json.stdout)).toEqual({
    ...{ dryRun: true, inbox: { count: 1500, atLeast: false }, deadLetters: none, redrives: none },
    ...{ bufferedDeadLetters: none, handled: { count: 3, atLeast: false } },
  })
  expect((await shop.run('gc', '--dry-run')).stdout).toBe(
    'Would remove 1,500 expired claims and 1 dead letter older than 30 d, 2 dead letters of version buffers, and 3 rows of ' +
      'handled messages of queues.\n',
  )
  expect([await left('inbox'), await left('parked')]).toEqual([1510, 2])
  expect([await left('waiting'), await left('queue')]).toEqual([3, 4])
})

test('gc --json prints the figures of the run, and nothing else', async () => {
  const { stdout, stderr } = await shop.run('gc', '--json', '--batch-size', '100', '--pause-ms', '0')
  expect(JSON.parse(stdout)).toMatchObject({ inbox: 1500, deadLetters: 1, failures: 0, complete: true })
  expect(stderr).toBe('')
})

test('gc --interval-ms collects until SIGTERM, and then ends by itself', async () => {
  const child = startTxbox(['gc', '--interval-ms', '1000', '--database', shop.url])
  const end = ended(child)
  await until(
    async () => (await left('inbox')) === 10,
    () => 'the first run',
  )
  await shop.sql(
    "insert into txbox.inbox (consumer, key, processed_at, expires_at) values ('d', 'x', now(), now())",
  )
  await until(
    async () => (await left('inbox')) === 10,
    () => 'another run',
  )
  child.kill('SIGTERM')
  const { code, stderr } = await end
  expect(code).toBe(0)
  expect(stderr).toContain('info  Removed 1,500 expired claims and 1 dead letter')
  expect(stderr).toContain('SIGTERM: the collector finishes the batch in flight')
})

test('SIGINT ends a single run within one batch', async () => {
  const child = startTxbox(['gc', '--batch-size', '10', '--pause-ms', '100', '--database', shop.url])
  const end = ended(child)
  await until(
    async () => (await left('inbox')) < 1510,
    () => 'the run has begun',
  )
  child.kill('SIGINT')
  const { code, stdout } = await end
  expect(code).toBe(0)
  expect(stdout).toMatch(/stopped before it was complete\.\n$/)
  expect(await left('inbox')).toBeGreaterThan(10)
})

test.for([
  ['a retention that is no number', ['--dead-letter-retention-ms', 'long'], 2, /Expected a whole number/],
  ['an interval out of bounds', ['--interval-ms', '10'], 2, /'intervalMs' must be/],
  [
    'no tables',
    ['--schema', 'nowhere'],
    1,
    /Run 'npx txbox migrate --schema nowhere', or pass the right --schema\.\n$/,
  ],
] as const)('gc with %s: one line that says what to do', async ([, args, expectedCode, expected]) => {
  const { code, stderr, stdout } = await shop.run('gc', ...args)
  expect([code, stdout]).toEqual([expectedCode, ''])
  expect(stderr).toMatch(expected)
  expect(stderr.trim().split('\n').length).toBe(1)
})
