import { Kysely, PostgresDialect, type ControlledTransaction } from 'kysely'
import type { Pool } from 'pg'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { createInbox } from '@txbox/inbox'
import { migrate, postgres } from '@txbox/postgres'
import { driverConnectionOf } from '../../packages/sql/src/transactions/libraries/kysely-connection.ts'
import { useDatabaseUrl } from '../cli/use-database-url.ts'
import { load } from '../libraries/newest/load.ts'
import { poolOf } from '../support/engines/postgres-pool.ts'

const database = useDatabaseUrl()

beforeAll(async () => {
  const pool = poolOf(database.url, { max: 2 })
  await migrate(pool)
  await pool.end()
})

async function begin(pool: Pool): Promise<ControlledTransaction<object>> {
  const db = new Kysely<object>({ dialect: new PostgresDialect({ pool }) })
  const trx = await db.startTransaction().execute()
  onTestFinished(async () => {
    await trx.rollback().execute()
    await db.destroy()
  })
  return trx
}

test("Kysely's hidden connection is found among those of the pool, and nothing is sent", async () => {
  const pool = poolOf(database.url, { max: 4 })
  const others = await Promise.all([pool.connect(), pool.connect()])
  const trx = await begin(pool)
  for (const client of others) client.release()
  const found = new Set<unknown>()
  for (let time = 0; time < 2; time += 1) found.add(await driverConnectionOf(trx, async () => pool))
  const [client] = [...found]
  expect(found.size).toBe(1)
  expect(others).not.toContain(client)
  expect(client).toHaveProperty('processID')
  expect(Object.hasOwn(client as object, 'query')).toBe(false)
  const pid = Reflect.get(client as object, 'processID') as number
  const { rows } = await pool.query<{ query: string }>('select query from pg_stat_activity where pid = $1', [
    pid,
  ])
  expect(rows).toEqual([{ query: 'begin' }])
})

test('a connection of another pool is not found', async () => {
  const [pool, another] = [poolOf(database.url, { max: 1 }), poolOf(database.url, { max: 1 })]
  const trx = await begin(pool)
  await another.query('select 1')
  onTestFinished(() => another.end())
  expect(await driverConnectionOf(trx, async () => another)).toBeUndefined()
  expect(await driverConnectionOf(trx, async () => undefined)).toBeUndefined()
  expect(await driverConnectionOf(trx, async () => pool)).toHaveProperty('processID')
})

interface MikroOrm {
  readonly em: { fork(): { transactional<T>(work: (em: never) => Promise<T>): Promise<T> } }
  connect(): Promise<unknown>
  close(): Promise<void>
}

test('MikroORM on a dialect of Kysely that the user has made: its transactions and its root serve as well', async () => {
  const { MikroORM } = (await load('@mikro-orm/postgresql')) as {
    MikroORM: new (options: object) => MikroOrm
  }
  const orm = new MikroORM({
    entities: [],
    discovery: { warnWhenNoEntities: false },
    dbName: new URL(database.url).pathname.slice(1),
    driverOptions: new PostgresDialect({ pool: poolOf(database.url, { max: 2 }) }),
  })
  await orm.connect()
  onTestFinished(() => orm.close())
  const inbox = createInbox({ database: postgres({ db: orm.em as never }), consumer: 'given' })
  const statuses = [
    (await orm.em.fork().transactional((em) => inbox.process(em, { id: 'x' }, () => undefined))).status,
    (await inbox.run({ id: 'x' }, () => undefined)).status,
    (await inbox.run({ id: 'y' }, () => undefined)).status,
  ]
  expect(statuses).toEqual(['processed', 'duplicate', 'processed'])
})
