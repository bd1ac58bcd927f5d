import { beforeEach, expect, test } from 'vitest'
import { widthOf } from '../../packages/command/src/layout.ts'
import { ended, spawnTxbox, startTxbox, txbox } from './run-txbox.ts'
import { parked, useShop } from './use-shop.ts'

const shop = useShop()

const QUEUES = ['billing', 'reports-of-the-accounting-department-by-month', '請求書の作成']

const ERROR =
  "Message 0199d3c0-7f1a-7c3e-9c7e-5b1f3a2d4e60 was not routed: no queue is bound to exchange 'shop' for routing key 'orders'"

beforeEach(async () => {
  await shop.sql('delete from txbox.parked; delete from txbox.queue')
})

async function die(id: string, columns: Record<string, string> = {}): Promise<void> {
  await shop.sql(
    parked(id, {
      topic: "'orders'",
      key: "'order-42'",
      dead_at: 'now()',
      attempts: '1234',
      error: `'${ERROR.replaceAll("'", "''")}'`,
      ...columns,
    }),
  )
}

async function narrow(columns: number, ...args: string[]): Promise<string> {
  // A message that is due, while no relay runs, is a problem.
  const expected = args[0] === 'doctor' ? 1 : 0
  const { code, stdout, stderr } = await txbox(args, {
    DATABASE_URL: shop.url,
    COLUMNS: String(columns),
  })
  expect([code, stderr]).toEqual([expected, ''])
  return stdout
}

/** Checks that every line fits, and that every word of the text is complete. */
function expectFits(stdout: string, columns: number, text: string): void {
  expect(stdout.split('\n').filter((line) => line.length > columns)).toEqual([])
  const words = new Set(stdout.split(/\s+/))
  expect(text.split(' ').filter((word) => !words.has(word))).toEqual([])
}

test.for([60, 80, 120])(
  'tables fit a terminal of %i columns, and no line breaks inside a word',
  async (columns) => {
    await die('0199d3c0-7f1a-7c3e-9c7e-5b1f3a2d4e60')
    await shop.sql(
      parked('0199d3c0-7f1a-7c3e-9c7e-5b1f3a2d4e61', {
        key: "'order-43'",
        order_key: "'order-43'",
        due_at: 'now()',
        attempts: '2345',
        error: `'${ERROR.replaceAll("'", "''")}'`,
      }),
    )
    const all = `0199d3c0-7f1a-7c3e-9c7e-5b1f3a2d4e60 orders order-42 1,234 ${ERROR}`
    expectFits(
      await narrow(columns, 'dead-letters', 'list'),
      columns,
      '0199d3c0-7f1a-7c3e-9c7e-5b1f3a2d4e60 orders order-42 1,234',
    )
    expectFits(
      await narrow(columns, 'dead-letters', 'list', '--parked'),
      columns,
      '0199d3c0-7f1a-7c3e-9c7e-5b1f3a2d4e61 orders order-43 2,345',
    )
    expectFits(
      await narrow(columns, 'dead-letters', 'show', '0199d3c0-7f1a-7c3e-9c7e-5b1f3a2d4e60'),
      columns,
      all,
    )
    expectFits(await narrow(columns, 'status'), columns, `order-43 2,345 ${ERROR}`)
    expectFits(await narrow(columns, 'doctor'), columns, "'order-43' notifications arrive")
  },
)

test.for([
  [60, /^error {5}Message 0199d3c0\S*60 was …\nid {8}0199d3c0\S*60\ntopic {5}orders\n/],
  [80, /^error {5}Message 0199d3c0\S*60 was not routed: no …\nid {8}0199d3c0\S*60\ntopic {5}orders\n/],
  [120, /^Message 0199d3c0-7f1a-7c3e … +0199d3c0\S*60 +orders +order-42 +\S+Z +1,234$/m],
  [200, /^Message 0199d3c0\S*60 was .* 'shop' for … +0199d3c0\S*60 +orders +order-42 +\S+Z +1,234$/m],
  [
    1000,
    /^Message 0199d3c0\S*60 was .* for routing key 'orders' +0199d3c0\S*60 +orders +order-42 +\S+Z +1,234$/m,
  ],
] as const)(
  'a table of dead letters shows the first line of the error, cut to a terminal of %i columns, before the id',
  async ([columns, expected]) => {
    const error = `${ERROR}\nconnect ECONNREFUSED 127.0.0.1:9`
    await die('0199d3c0-7f1a-7c3e-9c7e-5b1f3a2d4e60', { error: `'${error.replaceAll("'", "''")}'` })
    const stdout = await narrow(columns, 'dead-letters', 'list')
    expect(stdout).toMatch(expected)
    expectFits(stdout, columns, '')
    expect(stdout).not.toContain('ECONNREFUSED')
  },
)

test('N2 control characters of messages are shown escaped, and have no effect on the terminal', async () => {
  const evil = String.raw`E'\u001b]0;owned\u0007\u009b31m\nnext line\u202egpj.exe'`
  await die(`a`, { topic: evil, key: evil, error: evil })
  await shop.sql(parked('b', { key: evil, order_key: evil, topic: evil, due_at: 'now()', error: evil }))
  const unseen = /[^\P{Cc}\n]|\p{Bidi_Control}/u
  for (const args of [
    ['dead-letters', 'list'],
    ['dead-letters', 'list', '--json'],
    ['dead-letters', 'show', 'a', '--payload'],
    ['dead-letters', 'list', '--parked'],
    ['status'],
    ['status', '--json'],
    ['doctor'],
  ]) {
    const { stdout } = await shop.run(...args)
    expect(stdout, args.join(' ')).not.toMatch(unseen)
    expect(stdout, args.join(' ')).toMatch(/\\e\]0;owned|\\u001b\]0;owned|'?.*owned/)
  }
  const { stdout } = await shop.run('dead-letters', 'list', '--json')
  expect((JSON.parse(stdout) as { topic: string }).topic).toBe(
    '\u001B]0;owned\u0007\u009B31m\nnext line\u202Egpj.exe',
  )
})

test('when the reader of its output goes away, the command ends without an error', async () => {
  await shop.sql(
    `insert into txbox.parked (shard, id, topic, content_type, headers, payload, dead_at, attempts, error)
     select 0, n::text, 'orders', 'c', '{}', 'x', now(), 1, repeat('x', 2000) from generate_series(1, 1000) as n`,
  )
  const child = startTxbox(['dead-letters', 'list', '--json', '--limit', '1000'], { DATABASE_URL: shop.url })
  const end = ended(child)
  child.stdout?.once('data', () => child.stdout?.destroy())
  const { code, stderr } = await end
  expect([code, stderr]).toEqual([0, ''])
})

test.for(['n\n', '\n', ''])(
  'the answer %j to the question changes nothing, and is no failure',
  async (typed) => {
    await die('a')
    const { code, stdout, stderr } = await spawnTxbox(
      ['dead-letters', 'discard', 'a'],
      { DATABASE_URL: shop.url },
      { typed },
    )
    expect([code, stdout]).toEqual([0, 'Nothing was changed.\n'])
    expect(stderr).toContain('Discard? [y/N]')
    expect((await shop.sql('select 1 from txbox.parked')).rowCount).toBe(1)
  },
)

test('the answer y to the question discards the dead letters', async () => {
  await die('a')
  const { code, stdout } = await spawnTxbox(
    ['dead-letters', 'discard', 'a'],
    { DATABASE_URL: shop.url },
    { typed: 'y\n' },
  )
  expect([code, stdout]).toEqual([0, 'Deleted 1 dead letter.\n'])
})

test.for([60, 80, 120])('status with queues fits a terminal of %i columns', async (columns) => {
  const row = (topic: string, id: string, more: Record<string, string>): string =>
    parked(id, { topic: `'${topic}'`, ...more }, 'queue')
  for (const topic of QUEUES) {
    await shop.sql(row(topic, 'due', { due_at: "now() - interval '100 days'" }))
    await shop.sql(row(topic, 'dead', { dead_at: 'now()' }))
    await shop.sql(`insert into txbox.queue (shard, id, topic, order_key, content_type, headers, payload)
      select 0, n::text, '${topic}', 'k', 'c', '{}', 'x' from generate_series(1, 1234) as n`)
  }
  const stdout = await narrow(columns, 'status')
  expectFits(stdout, columns, `${QUEUES.join(' ')} queue due oldest waiting 1,234 delayed flight dead`)
  // Characters of two columns make no line wider than the terminal.
  for (const line of stdout.split('\n')) expect(widthOf(line)).toBeLessThanOrEqual(columns)
  for (const topic of QUEUES) expect(stdout).toContain(topic)
})
