import { describe, expect, test } from 'vitest'
import { TransactionAbortedError } from '@txbox/core'
import { InboxUnderTest, WAYS } from '../support/subjects/inbox-under-test.ts'
import { onEachKind, useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  describe.each([
    'rollback; begin',
    'commit; begin',
    'select 1; rollback; begin',
    'savepoint mine; rollback; begin; select 1',
    '/* rollback to mine */ rollback and chain',
  ])('I7 fn replaces its transaction by another one in one text: %s', (text) => {
    test.for(WAYS)('TransactionAbortedError (%s)', async (way) => {
      const subject = new InboxUnderTest(target, root)
      const delivered = subject.deliver(way, { id: 'x' }, async (tx) => void (await target.exec(tx, text)))
      await expect(delivered).rejects.toThrow(TransactionAbortedError)
      expect(await subject.effects()).toBe(0)
    })
  })

  test('I7 several statements in one text that do not affect the claim: processed', async () => {
    const subject = new InboxUnderTest(target, root)
    for (const way of WAYS) {
      const outcome = await subject.deliver(way, { id: way }, async (tx, message, context) => {
        await target.exec(tx, 'savepoint mine; select 1; rollback to mine; select 2; release mine')
        return subject.handle(tx, message, context)
      })
      expect(outcome).toMatchObject({ status: 'processed' })
    }
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([2, ['process', 'run']])
  })

  test('I7 fn rolls back to a savepoint of its own, with a claim that was renewed or made in a savepoint: processed', async () => {
    const subject = new InboxUnderTest(target, root)
    const ids = ['a', 'b', 'c']
    for (const id of ids) await subject.process({ id })
    await target.expire(subject.consumer)
    const transaction = await root.begin()
    await transaction.savepoint('outer_one')
    await transaction.savepoint('outer_two')
    const recover = async (tx: typeof transaction.tx): Promise<void> => {
      await target.exec(tx, 'savepoint mine')
      await target.exec(tx, 'rollback to savepoint mine')
    }
    const [first, ...others] = ids.map((id) => ({ id }))
    const outcomes = [
      await subject.inbox.process(transaction.tx, first!, recover),
      ...(await subject.inbox.processBatch(transaction.tx, [...others, { id: 'd' }], recover)).outcomes,
    ]
    await transaction.commit()
    expect(outcomes.map(({ status }) => status)).toEqual(Array(4).fill('processed'))
  })
})
