import { Client, Pool } from 'pg'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { createOutbox } from '@txbox/outbox'
import { migrate, postgres } from '@txbox/postgres'
import { ended, startTxbox, txbox } from './run-txbox.ts'
import { until } from '../support/worlds/until.ts'
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

test('relay --drain writes the due messages to standard output, in order, and exits', async () => {
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
  'O10 relay runs until %s, and releases its leases',
  async (signal) => {
    const child = startTxbox(['relay', '--publisher', 'stdout:', '--database', database.url])
    onTestFinished(() => void child.kill('SIGKILL'))
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

test('relay regularly logs the number of published messages and the backlog, and logs nothing about its leases', async () => {
  const child = startTxbox([
    ...['relay', '--publisher', 'stdout:', '--database', database.url],
    ...['--wakeup', 'notify', '--batch-bytes', '65536', '--log-interval-ms', '200'],
  ])
  // A relay that is left behind would take the messages of the tests after this one.
  onTestFinished(() => void child.kill('SIGKILL'))
  const end = ended(child)
  let stderr = ''
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  await until(
    async () => stderr.includes('has started'),
    () => stderr,
  )
  await publish(...Array.from({ length: 3 }, (_, n) => ({ topic: 'many', payload: n })))
  // On a busy machine the messages are published in more than one interval.
  const logged = (): readonly (readonly string[])[] => [
    ...stderr.matchAll(/ info {2}(\d+) messages? published in [^;]+; (.+)\.\n/g),
  ]
  await until(
    async () =>
      logged().reduce((sum, [, count]) => sum + Number(count), 0) === 3 &&
      logged().at(-1)?.[2] === 'no message waits',
    () => stderr,
  )
  child.kill('SIGTERM')
  const { code } = await end
  expect(code).toBe(0)
  expect(stderr).not.toMatch(/shard|lease/)
  expect(stderr).toMatch(/The relay .* has stopped\.\n$/)
})

test('relay --drain --timeout fails if the drain takes longer, and reports how many messages are left', async () => {
  await publish({ topic: 'stays', payload: 1 })
  const { code, stderr } = await txbox([
    ...['relay', '--publisher', 'amqp://u:secret@127.0.0.1:1', '--drain', '--timeout', '1'],
    ...['--database', database.url],
  ])
  expect(code).toBe(1)
  expect(stderr).toMatch(
    /\ntxbox: The outbox is not drained after 1 s: 1 message waits, the oldest for .*\.\n$/,
  )
  expect(stderr).not.toContain('secret')
  await database.sql('delete from txbox.outbox')
})

test('N1 when the reader of standard output goes away, the relay ends without an error; the other messages stay in the outbox', async () => {
  await publish(...Array.from({ length: 2000 }, (_, n) => ({ topic: 'many', payload: 'x'.repeat(500) + n })))
  const child = startTxbox([
    ...['relay', '--publisher', 'stdout:', '--batch-size', '10', '--database', database.url],
  ])
  onTestFinished(() => void child.kill('SIGKILL'))
  const end = ended(child)
  child.stdout?.once('data', () => child.stdout?.destroy())
  const { code, stderr } = await end
  expect(code).toBe(0)
  expect(stderr).toMatch(/^\S+ info {2}The relay \S+ has started\.\n$/)
  expect((await database.sql('select 1 from txbox.outbox limit 1')).rowCount).toBe(1)
  expect((await database.sql('select 1 from txbox.leases where owner is not null')).rowCount).toBe(0)
  await database.sql('delete from txbox.outbox')
})

const mistakes: [string, string[], number, RegExp][] = [
  ['no publisher', [], 2, /required option '--publisher/],
  ['an unknown publisher', ['--publisher', 'ftp://u:secret@h'], 2, /--publisher ftp:… is not supported/],
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
  [
    'no tables',
    ['--publisher', 'stdout:', '--schema', 'nowhere'],
    1,
    /Run 'npx txbox migrate --schema nowhere', or pass the right --schema\.\n$/,
  ],
]

test.for(mistakes)(
  'relay with %s prints one line that says what to do',
  async ([, args, expectedCode, expected]) => {
    const { code, stderr } = await txbox(['relay', '--database', database.url, ...args])
    expect(code).toBe(expectedCode)
    expect(stderr).toMatch(expected)
    expect(stderr).not.toContain('secret')
    expect(stderr).not.toMatch(/^\s+at /m)
  },
)
