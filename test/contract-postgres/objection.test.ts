import { beforeAll, afterAll, expect, test } from 'vitest'
import type { TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { migrate, postgres } from '@txbox/postgres'
import { useDatabaseUrl } from '../cli/use-database-url.ts'
import { load } from '../libraries/newest/load.ts'
import { poolOf } from '../support/postgres-pool.ts'

interface Knex {
  destroy(): Promise<void>
}
interface ObjectionTransaction {
  commit(): Promise<void>
}
interface Objection {
  readonly transaction: <T>(knex: Knex, work: (trx: TransactionHandle) => Promise<T>) => Promise<T>
  readonly Model: ModelClass
}
interface ModelClass {
  new (): object
  knex(knex: Knex): unknown
  startTransaction(): Promise<ObjectionTransaction & TransactionHandle>
  query(trx: object): { insert(row: object): Promise<unknown> }
}

const database = useDatabaseUrl()
const inbox = createInbox({ database: postgres(), consumer: 'objection' })
const outbox = createOutbox({ database: postgres() })
const { transaction, Model } = ((await load('objection')) as { default: Objection }).default
class Account extends Model {
  static tableName = 'accounts'
}
const Accounts = Account as unknown as ModelClass
let knex: Knex
let pool: ReturnType<typeof poolOf>

beforeAll(async () => {
  pool = poolOf(database.url, { max: 2 })
  await migrate(pool)
  await pool.query('create table accounts (id text primary key)')
  const { default: create } = (await load('knex')) as { default: (config: object) => Knex }
  knex = create({ client: 'pg', connection: database.url })
  Accounts.knex(knex)
})
afterAll(async () => {
  await knex.destroy()
  await pool.end()
})

async function count(table: string): Promise<number> {
  return (await pool.query(`select 1 from ${table}`)).rowCount ?? 0
}

test('the claim, the change of a model and the message commit together, or not at all', async () => {
  const deliver = (after: () => void): Promise<string> =>
    transaction(knex, async (trx) => {
      const { status } = await inbox.process(trx, { id: 'x' }, async (tx) => {
        await Accounts.query(tx).insert({ id: 'a' })
        await outbox.publish(tx, { topic: 't', payload: 1 })
      })
      after()
      return status
    })
  const failed = deliver(() => {
    throw new Error('of the user')
  })
  await expect(failed).rejects.toThrow('of the user')
  expect([await count('accounts'), await count('txbox.outbox'), await count('txbox.inbox')]).toEqual([
    0, 0, 0,
  ])
  expect([await deliver(() => undefined), await deliver(() => undefined)]).toEqual(['processed', 'duplicate'])
  expect([await count('accounts'), await count('txbox.outbox'), await count('txbox.inbox')]).toEqual([
    1, 1, 1,
  ])
})

test('a transaction that a model has started', async () => {
  const trx = await Accounts.startTransaction()
  const { status } = await inbox.process(trx, { id: 'y' }, () => undefined)
  await trx.commit()
  expect(status).toBe('processed')
  expect(await count('txbox.inbox')).toBe(2)
})
