import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Kysely, PostgresAdapter, PostgresDriver, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'
import { Pool, type PoolConfig } from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { createInbox, UnsupportedTransactionError } from '@txbox/inbox'
import { migrate, postgres } from '@txbox/postgres'
import { useDatabaseUrl } from '../cli/use-database-url.ts'

const database = useDatabaseUrl()
let direct: Pool

beforeAll(async () => {
  direct = new Pool({ connectionString: database.url, max: 2 })
  direct.on('error', () => undefined)
  direct.on('connect', (client) => client.on('error', () => undefined))
  await migrate(direct)
  await direct.query('create table effects (message text)')
})
afterAll(() => direct.end())

function inboxOn(config: PoolConfig) {
  const pool = new Pool({ connectionString: database.url, max: 1, ...config })
  pool.on('error', () => undefined)
  pool.on('connect', (client) => client.on('error', () => undefined))
  onTestFinished(() => pool.end())
  const inbox = createInbox({ database: postgres({ db: pool }), consumer: randomUUID() })
  const run = async (id: string, andThen = ''): Promise<string> => {
    const outcome = await inbox.run({ id }, async (tx) => {
      await tx.query('insert into effects values ($1)', [`${inbox.consumer} ${id}`])
      if (andThen !== '') await tx.query(andThen)
    })
    return outcome.status
  }
  const effects = async (): Promise<string[]> => {
    const { rows } = await direct.query<{ message: string }>('select message from effects order by message')
    return rows.flatMap(({ message }) =>
      message.startsWith(inbox.consumer) ? [message.slice(inbox.consumer.length + 1)] : [],
    )
  }
  return { pool, run, effects, consumer: inbox.consumer }
}

for (const pipeline of [false, true]) {
  const kind = pipeline ? 'a pipelined pool' : 'a pool'

  test(`I2 run on ${kind} continues when its prepared claim has been deallocated`, async () => {
    const { run, effects } = inboxOn({ pipeline })
    expect(await run('1')).toBe('processed')
    // The first run on a pool checks the revision of the tables before it claims.
    expect(await run('1')).toBe('duplicate')
    expect(await run('2', 'deallocate all')).toBe('processed')
    expect(await run('3')).toBe('processed')
    expect(await run('2')).toBe('duplicate')
    expect(await effects()).toEqual(['1', '2', '3'])
  })

  test(`I2 run on ${kind} goes on with its prepared claim after a claim that failed`, async () => {
    const { pool, run, consumer } = inboxOn({ pipeline, options: '-c lock_timeout=100ms' })
    expect(await run('0')).toBe('processed')
    // The next claim is the first on another connection of the pool.
    ;(await pool.connect()).release(true)
    const other = await direct.connect()
    await other.query('begin')
    await createInbox({ database: postgres(), consumer }).process(other, { id: '1' }, () => undefined)
    const waiting = run('1')
    // The first attempt fails, and a later one succeeds.
    await sleep(200)
    await other.query('rollback')
    other.release()
    expect(await waiting).toBe('processed')
    for (let n = 2; n < 10; n += 1) await run(String(n))
    const { rows } = await pool.query<{ uses: number }>(
      "select (generic_plans + custom_plans)::int as uses from pg_prepared_statements where name like 'txbox%'",
    )
    expect(rows.length).toBe(1)
    expect(rows[0]!.uses).toBeGreaterThanOrEqual(9)
  })

  test(`I2 run on ${kind} continues when the pooler's connection has another client's prepared claim`, async () => {
    const { pool, run, effects } = inboxOn({ pipeline })
    expect(await run('0')).toBe('processed')
    expect(await run('1')).toBe('processed')
    const { rows } = await pool.query<{ name: string }>('select name from pg_prepared_statements')
    const client = await pool.connect()
    // On another connection of the same pool, the server already has a statement with this name.
    client.release(true)
    for (const { name } of rows) await pool.query(`prepare "${name}" as select 1`)
    expect(rows.length).toBe(1)
    expect(await run('2')).toBe('processed')
    expect(await run('2')).toBe('duplicate')
    expect(await effects()).toEqual(['0', '1', '2'])
  })
}

test('I1 a dialect that does not report how many rows were written is refused, and not treated as a duplicate', async () => {
  class SilentDriver extends PostgresDriver {
    override async acquireConnection() {
      const connection = await super.acquireConnection()
      const execute = connection.executeQuery.bind(connection)
      connection.executeQuery = async (...query) => {
        const { numAffectedRows: _, ...result } = await execute(...query)
        return result as never
      }
      return connection
    }
  }
  const db = new Kysely<object>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new SilentDriver({ pool: direct }),
      createIntrospector: (kysely) => new PostgresIntrospector(kysely),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  })
  const inbox = createInbox({ database: postgres({ db }), consumer: 'silent' })
  let ran = false
  const done = inbox.run({ id: '1' }, () => void (ran = true))
  await expect(done).rejects.toThrow(UnsupportedTransactionError)
  expect(ran).toBe(false)
})
