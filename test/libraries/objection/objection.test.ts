import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import type { TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { useRoot, useTarget } from '../../support/engines/target.ts'
import { load } from '../newest/load.ts'

interface ObjectionTransaction {
  commit(): Promise<void>
}
interface Objection {
  readonly transaction: <T>(knex: object, work: (trx: TransactionHandle) => Promise<T>) => Promise<T>
  readonly Model: ModelClass
}
interface ModelClass {
  new (): object
  knex(knex: object): unknown
  startTransaction(): Promise<ObjectionTransaction & TransactionHandle>
  query(trx: object): { insert(row: object): Promise<unknown> }
}

// Runs in the projects of Knex, whose transactions Objection passes.
const target = useTarget()
const root = useRoot(target, target.kinds[0]!)
const consumer = `objection-${randomUUID()}`
const { transaction, Model } = ((await load('objection')) as { default: Objection }).default
class Effect extends Model {
  static tableName = 'effects'
  static idColumn = 'seq'
}
const Effects = Effect as unknown as ModelClass
beforeAll(() => void Effects.knex(root.db))

async function written(): Promise<readonly number[]> {
  const messages = await target.sql(`select 1 from ${target.outboxTable} where topic = ?`, [consumer])
  return [await target.effects(consumer), (await target.claims(consumer)).length, messages.length]
}

test('the claim, the change of a model and the message commit together, or not at all', async () => {
  const inbox = createInbox({ database: root.database, consumer })
  const outbox = createOutbox({ database: root.database })
  const deliver = (after: () => void): Promise<string> =>
    transaction(root.db, async (trx) => {
      const { status } = await inbox.process(trx, { id: 'x' }, async (tx) => {
        await Effects.query(tx).insert({ name: consumer })
        await outbox.publish(tx, { topic: consumer, payload: 1 })
      })
      after()
      return status
    })
  const failed = deliver(() => {
    throw new Error('of the user')
  })
  await expect(failed).rejects.toThrow('of the user')
  expect(await written()).toEqual([0, 0, 0])
  expect([await deliver(() => undefined), await deliver(() => undefined)]).toEqual(['processed', 'duplicate'])
  expect(await written()).toEqual([1, 1, 1])
})

test('a transaction that a model has started', async () => {
  const inbox = createInbox({ database: root.database, consumer })
  const trx = await Effects.startTransaction()
  const { status } = await inbox.process(trx, { id: 'y' }, () => undefined)
  await trx.commit()
  expect(status).toBe('processed')
})
