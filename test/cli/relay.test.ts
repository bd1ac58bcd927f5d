import { Client, Pool } from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { createOutbox } from '@txbox/outbox'
import { migrate, postgres } from '@txbox/postgres'
import { ended, startTxbox, txbox } from './run-txbox.ts'
import { useDatabaseUrl } from './use-database-url.ts'

const database = useDatabaseUrl()
const outbox = createOutbox({ database: postgres() })

async function publish(...messages: Parameters<typeof outbox.publish>[1][]): Promise<void> {
  const client = new Client(database.url)
  await client.connect()
  await client.query('BEGIN')
  for (const message of messages) await outbox.publish(client, message)
  await client.query('COMMIT')
  await client.end()
}

beforeAll(async () => {
  const pool = new Pool({ connectionString: database.url })
  await migrate(pool)
  await pool.end()
})

test('relay --drain writes what is due to standard output, in order, and exits', async () => {
  await publish(
    { topic: 'order.paid', key: '7', payload: { n: 1 }, headers: { a: 'b' } },
    { topic: 'note', key: '7', payload: 'text', contentType: 'text/plain' },
    { topic: 'blob', key: '7', payload: new Uint8Array([0, 255]) },
  )
  const { code, stdout, stderr } = await txbox([
    'relay',
    '--publisher',
    'stdout:',
    '--drain',
    '--database',
    database.url,
  ])
  expect(code, stderr).toBe(0)
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as object)
  expect(lines).toMatchObject([
    { topic: 'order.paid', key: '7', payload: { n: 1 }, headers: { a: 'b' } },
    { topic: 'note', payload: 'text' },
    { topic: 'blob', payloadBase64: 'AP8=' },
  ])
  expect(stderr).toContain('Drained: 3 messages published, 0 parked, 0 dead letters.')
  expect((await database.sql('select 1 from txbox.outbox')).rowCount).toBe(0)
})

test.for(['SIGTERM', 'SIGINT'] as const)(
  'O10 relay runs until %s, and gives its leases back',
  async (signal) => {
    const child = startTxbox(['relay', '--publisher', 'stdout:', '--database', database.url])
    const end = ended(child)
    await new Promise((resolve) =>
      child.stderr?.on('data', (chunk: Buffer) => chunk.includes('started') && resolve(0)),
    )
    const line = new Promise((resolve) => child.stdout?.once('data', resolve))
    await publish({ topic: 'late', payload: 1 })
    await line
    child.kill(signal)
    expect((await end).code).toBe(0)
    expect((await database.sql('select 1 from txbox.leases where owner is not null')).rowCount).toBe(0)
  },
)

const mistakes: [string, string[], number, RegExp][] = [
  ['no publisher', [], 2, /required option '--publisher/],
  ['an unknown publisher', ['--publisher', 'ftp://u:secret@h'], 2, /--publisher ftp:… is unknown/],
  [
    'a batch that is no number',
    ['--publisher', 'stdout:', '--batch-size', 'many'],
    2,
    /Expected a whole number/,
  ],
  [
    'a batch out of bounds',
    ['--publisher', 'stdout:', '--batch-size', '0'],
    2,
    /'batchSize' must be a whole number/,
  ],
  ['no tables', ['--publisher', 'stdout:', '--schema', 'nowhere'], 1, /Run 'txbox migrate'/],
]

test.for(mistakes)(
  'relay with %s: one line that says what to do',
  async ([, args, expectedCode, expected]) => {
    const { code, stderr } = await txbox(['relay', '--database', database.url, ...args])
    expect(code).toBe(expectedCode)
    expect(stderr).toMatch(expected)
    expect(stderr).not.toContain('secret')
    expect(stderr).not.toMatch(/^\s+at /m)
  },
)
