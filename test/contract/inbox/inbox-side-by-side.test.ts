import { expect, test } from 'vitest'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: 1 })

  test('I2 I7 when one of two messages that are processed side by side fails, and the transaction rolls back, the handler of the other has no effect', async () => {
    const subject = new InboxUnderTest(target, root)
    const late: Promise<unknown>[] = []
    const refused = root.database.transact(async (tx) => {
      const failing = subject.inbox.process(tx, { id: 'failing' }, () => {
        throw new Error('refused')
      })
      const other = subject.inbox.process(tx, { id: 'other' }, subject.handle)
      late.push(Promise.allSettled([other]))
      await Promise.all([failing, other])
    })
    await expect(refused).rejects.toThrow('refused')
    await Promise.all(late)
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([0, []])
    expect(await subject.process({ id: 'other' })).toMatchObject({ status: 'processed' })
    expect(await subject.effects()).toBe(1)
  })
})
