import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TransactionAbortedError } from '@txbox/core'
import { InboxUnderTest, WAYS } from '../support/subjects/inbox-under-test.ts'
import { useTarget, type Root } from '../support/engines/target.ts'

const target = useTarget()

describe.each(['mysql2', 'Kysely'])('%s that accepts several statements in one text', (library) => {
  let root: Root
  beforeAll(() => void (root = target.openOdd(`${library} that takes several statements in one text`)))
  afterAll(() => root.close())

  test.for([
    'rollback; begin',
    'select 1; rollback; begin',
    'do 1; commit; start transaction',
    'savepoint mine; rollback; begin; select 1',
    'insert into effects (name) values (1); commit and chain',
  ])(
    'I7 fn replaces its transaction by another one in one text: TransactionAbortedError (%s)',
    async (text) => {
      const subject = new InboxUnderTest(target, root)
      for (const way of WAYS) {
        const delivered = subject.deliver(way, { id: way }, async (tx) => void (await target.exec(tx, text)))
        await expect(delivered, way).rejects.toThrow(TransactionAbortedError)
      }
    },
  )

  test('I7 several statements that do not affect the claim, and a semicolon in a string, are processed', async () => {
    const subject = new InboxUnderTest(target, root)
    for (const way of WAYS) {
      const outcome = await subject.deliver(way, { id: way }, async (tx, message, context) => {
        await target.exec(tx, 'savepoint mine; select 1; rollback to savepoint mine; release savepoint mine')
        await target.exec(tx, "select 'a; commit; b'")
        return subject.handle(tx, message, context)
      })
      expect(outcome).toMatchObject({ status: 'processed' })
    }
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([2, ['process', 'run']])
  })

  test('an isolation level that contains SQL is never sent to a server', async () => {
    const isolation = 'read committed; drop table effects; -- ' as 'read committed'
    await expect(root.database.transact(() => Promise.resolve(), { isolation })).rejects.toThrow(
      "'isolation'",
    )
    await target.sql('select * from effects')
  })
})
