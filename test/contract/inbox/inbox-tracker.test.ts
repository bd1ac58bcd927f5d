import { expect, test } from 'vitest'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import {
  onEachKindAndIsolation,
  useRoot,
  useTarget,
  type OpenTransaction,
  type Root,
} from '../../support/engines/target.ts'

const target = useTarget()

onEachKindAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation })

  test('the tracker alone reports not processed, recorded, processed, duplicate and forgotten', async () => {
    const subject = new InboxUnderTest(target, root)
    const { inbox } = subject
    const x = { id: 'x', correlationId: 'c' }
    const course = await inTransaction(root, async ({ tx }) => [
      await inbox.hasProcessed(tx, x),
      await inbox.forget(tx, x),
      await inbox.markProcessed(tx, x),
      await inbox.hasProcessed(tx, x),
      await inbox.markProcessed(tx, x),
    ])
    expect(course).toEqual([false, false, 'recorded', true, 'duplicate'])
    expect(await target.claims(subject.consumer)).toMatchObject([{ key: 'x', correlationId: 'c' }])
    const later = await inTransaction(root, async ({ tx }) => [
      await inbox.hasProcessed(tx, x),
      await inbox.forget(tx, x),
      await inbox.hasProcessed(tx, x),
      await inbox.forget(tx, x),
    ])
    expect(later).toEqual([true, true, false, false])
    expect(await subject.claimedKeys()).toEqual([])
  })

  test('a marked message is a duplicate for process and run; a forgotten message runs again', async () => {
    const subject = new InboxUnderTest(target, root)
    await inTransaction(root, ({ tx }) => subject.inbox.markProcessed(tx, { id: 'x' }))
    expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'duplicate' })
    expect(await subject.inbox.run({ id: 'x' }, subject.handle)).toMatchObject({ status: 'duplicate' })
    await inTransaction(root, ({ tx }) => subject.inbox.forget(tx, { id: 'x' }))
    expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'processed' })
    expect(await subject.effects()).toBe(1)
  })

  test('I2 mark and forget roll back with the transaction', async () => {
    const subject = new InboxUnderTest(target, root)
    const marking = await root.begin()
    await subject.inbox.markProcessed(marking.tx, { id: 'x' })
    await marking.rollback()
    expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'processed' })
    const forgetting = await root.begin()
    expect(await subject.inbox.forget(forgetting.tx, { id: 'x' })).toBe(true)
    await forgetting.rollback()
    expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'duplicate' })
  })

  test('K1 the tracker affects only its own consumer and key', async () => {
    const subject = new InboxUnderTest(target, root)
    const other = new InboxUnderTest(target, root)
    for (const id of ['x', 'X']) await subject.process({ id })
    await other.process({ id: 'x' })
    await inTransaction(root, ({ tx }) => subject.inbox.forget(tx, { id: 'x' }))
    expect([await subject.claimedKeys(), await other.claimedKeys()]).toEqual([['X'], ['x']])
  })

  test('I4 a mark waits for a winner; a look-up does not wait, and does not see uncommitted claims', async () => {
    const subject = new InboxUnderTest(target, root)
    const winner = await root.begin()
    await subject.inbox.process(winner.tx, { id: 'x' }, () => undefined)
    expect(await inTransaction(root, ({ tx }) => subject.inbox.hasProcessed(tx, { id: 'x' }))).toBe(false)
    const marking = inTransaction(root, ({ tx }) => subject.inbox.markProcessed(tx, { id: 'x' }))
    await target.blocked(1)
    await winner.rollback()
    expect(await marking).toBe('recorded')
  })

  test('I9 an expired claim counts as not processed, is marked again, and cannot be forgotten', async () => {
    const subject = new InboxUnderTest(target, root)
    const { inbox } = subject
    for (const id of ['x', 'y']) await subject.process({ id })
    await target.expire(subject.consumer)
    const course = await inTransaction(root, async ({ tx }) => [
      await inbox.hasProcessed(tx, { id: 'x' }),
      await inbox.markProcessed(tx, { id: 'x' }),
      await inbox.hasProcessed(tx, { id: 'x' }),
      await inbox.forget(tx, { id: 'y' }),
    ])
    expect(course).toEqual([false, 'recorded', true, false])
  })

  test('I6 a look-up writes nothing', async () => {
    const subject = new InboxUnderTest(target, root)
    await subject.process({ id: 'x' })
    const wrote = await inTransaction(root, async (transaction) => {
      await subject.inbox.hasProcessed(transaction.tx, { id: 'x' })
      await subject.inbox.hasProcessed(transaction.tx, { id: 'y' })
      await subject.inbox.markProcessed(transaction.tx, { id: 'x' })
      return target.hasWritten(transaction)
    })
    expect(wrote).toBe(false)
  })
})

async function inTransaction<R>(root: Root, work: (transaction: OpenTransaction) => Promise<R>): Promise<R> {
  const transaction = await root.begin()
  try {
    const result = await work(transaction)
    await transaction.commit()
    return result
  } catch (error) {
    await transaction.rollback()
    throw error
  }
}
