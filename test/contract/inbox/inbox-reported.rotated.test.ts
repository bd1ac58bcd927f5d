import { expect, test } from 'vitest'
import { TransactionConflictError } from '@txbox/core'
import { isSettled } from '@txbox/inbox'
import { InboxUnderTest, WAYS } from '../../support/subjects/inbox-under-test.ts'
import {
  onEachKind,
  onEachKindAndIsolation,
  useRoot,
  useTarget,
  type OpenTransaction,
  type Root,
} from '../../support/engines/target.ts'
import { undisturbed } from '../../support/worlds/undisturbed.ts'

const target = useTarget()
const REPORT = { inFlight: 'report' } as const
const DELIVERIES = 12

/** A claim of `id` in a transaction that stays open. */
async function inFlight(subject: InboxUnderTest, root: Root, id = 'x'): ReturnType<Root['begin']> {
  const transaction = await root.begin()
  expect(await subject.inbox.process(transaction.tx, { id }, subject.handle)).toMatchObject({
    status: 'processed',
  })
  return transaction
}

onEachKindAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation, max: DELIVERIES + 2 })

  for (const way of WAYS) {
    test(`I4 with 'report' a delivery that finds another in flight gets that answer at once (${way})`, async () => {
      const subject = new InboxUnderTest(target, root, REPORT)
      const winner = await inFlight(subject, root)
      const { result: outcome, tookMs } = await undisturbed(target, () => subject.deliver(way, { id: 'x' }))
      expect(outcome).toEqual({ status: 'in-flight', key: 'x' })
      expect(isSettled(outcome)).toBe(false)
      // MySQL has no shorter wait than a second, and at READ COMMITTED needs none.
      const waits = target.engine === 'mysql' && isolation !== 'read committed'
      expect(tookMs).toBeLessThan(waits ? 2500 : 900)
      await winner.commit()
      expect(await subject.deliver(way, { id: 'x' })).toMatchObject({ status: 'duplicate' })
      expect([subject.calls, await subject.effects()]).toEqual([1, 1])
    })

    test(`I4 with 'report' the key is new again when the delivery in flight has rolled back (${way})`, async () => {
      const subject = new InboxUnderTest(target, root, REPORT)
      const winner = await inFlight(subject, root)
      expect(await subject.deliver(way, { id: 'x' })).toMatchObject({ status: 'in-flight' })
      await winner.rollback()
      expect(await subject.deliver(way, { id: 'x' })).toMatchObject({ status: 'processed' })
      expect(await subject.effects()).toBe(1)
    })
  }

  test("I4 with 'report' the transaction of a delivery that got 'in-flight' is usable", async () => {
    const subject = new InboxUnderTest(target, root, REPORT)
    const winner = await inFlight(subject, root)
    const other = await root.begin()
    await target.effect(other.tx, `${subject.consumer}-before`)
    expect(await subject.inbox.process(other.tx, { id: 'x' }, subject.handle)).toMatchObject({
      status: 'in-flight',
    })
    expect(await subject.inbox.process(other.tx, { id: 'y' }, subject.handle)).toMatchObject({
      status: 'processed',
    })
    await other.commit()
    await winner.commit()
    expect(await target.effects(`${subject.consumer}-before`)).toBe(1)
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([2, ['x', 'y']])
  })

  test("I4 with 'report' a committed claim is a duplicate, while its duplicates are in flight too", async () => {
    const subject = new InboxUnderTest(target, root, REPORT)
    await subject.process({ id: 'x' })
    const first = await root.begin()
    const second = await root.begin()
    for (const { tx } of [first, second, first]) {
      expect(await subject.inbox.process(tx, { id: 'x' }, subject.handle)).toMatchObject({
        status: 'duplicate',
      })
    }
    await first.commit()
    await second.commit()
    expect(subject.calls).toBe(1)
  })

  test("I4 I9 with 'report' one delivery takes over an expired claim, and the other gets 'in-flight'", async () => {
    const subject = new InboxUnderTest(target, root, REPORT)
    await subject.process({ id: 'x' })
    await target.expire(subject.consumer)
    const winner = await inFlight(subject, root)
    const outcome = await subject.process({ id: 'x' }).catch((error: unknown) => error)
    // At REPEATABLE READ a database may ask the loser to try again instead.
    if (outcome instanceof TransactionConflictError) expect(isolation).not.toBe('read committed')
    else expect(outcome).toEqual({ status: 'in-flight', key: 'x' })
    await winner.commit()
    expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'duplicate' })
    expect(await subject.effects()).toBe(2)
  })

  test(`I4 with 'report' of ${DELIVERIES} concurrent deliveries exactly one takes effect`, async () => {
    const subject = new InboxUnderTest(target, root, REPORT)
    const deliver = async (): Promise<string> => {
      for (;;) {
        const outcome = await subject.processUntilSettled({ id: 'x' })
        if (isSettled(outcome)) return outcome.status
      }
    }
    const statuses = await Promise.all(Array.from({ length: DELIVERIES }, deliver))
    expect(statuses.sort()).toEqual([...Array<string>(DELIVERIES - 1).fill('duplicate'), 'processed'])
    expect(await subject.effects()).toBe(1)
  })

  test("I8 with 'report' the same key twice in one transaction: the second is a duplicate", async () => {
    const subject = new InboxUnderTest(target, root, REPORT)
    const transaction = await inFlight(subject, root)
    expect(await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)).toMatchObject({
      status: 'duplicate',
    })
    await transaction.commit()
    expect(await subject.effects()).toBe(1)
  })

  test("I8 with 'report' a rollback to a savepoint before the claim makes the key new for others", async () => {
    const subject = new InboxUnderTest(target, root, REPORT)
    const transaction = await root.begin()
    await target.effect(transaction.tx, 'something')
    await transaction.savepoint('s')
    await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    await transaction.rollbackTo('s')
    const outcome = await subject.process({ id: 'x' })
    // MySQL and MariaDB keep the lock of a row that a savepoint took back until the transaction ends.
    expect(['processed', 'in-flight']).toContain(outcome.status)
    if (target.engine === 'postgres') expect(outcome.status).toBe('processed')
    await transaction.commit()
    if (outcome.status === 'in-flight') await subject.process({ id: 'x' })
    expect(await subject.effects()).toBe(1)
  })

  test("I4 I13 with 'report' a batch says which of its messages are in flight, and claims the others", async () => {
    const subject = new InboxUnderTest(target, root, REPORT)
    await subject.process({ id: 'b' })
    const winner = await inFlight(subject, root, 'c')
    const batch = await root.begin()
    const fresh: string[] = []
    const { outcomes } = await subject.inbox.processBatch(
      batch.tx,
      ['d', 'c', 'a', 'b', 'c', 'd'].map((id) => ({ id })),
      async (tx, messages) => {
        for (const { id } of messages) fresh.push(id)
        await subject.handle(tx, messages[0]!, undefined as never)
      },
    )
    expect(outcomes.map(({ status }) => status)).toEqual([
      'processed',
      'in-flight',
      'processed',
      'duplicate',
      'in-flight',
      'duplicate',
    ])
    expect(fresh).toEqual(['d', 'a'])
    await batch.commit()
    await winner.commit()
    expect(await subject.claimedKeys()).toEqual(['a', 'b', 'c', 'd'])
  })

  test("I4 with 'report' markProcessed throws a conflict while another delivery is in flight", async () => {
    const subject = new InboxUnderTest(target, root, REPORT)
    const winner = await inFlight(subject, root)
    const other = await root.begin()
    await expect(subject.inbox.markProcessed(other.tx, { id: 'x' })).rejects.toThrow(TransactionConflictError)
    await other.rollback()
    await winner.commit()
    const last = await root.begin()
    expect(await subject.inbox.markProcessed(last.tx, { id: 'x' })).toBe('duplicate')
    await last.commit()
  })
})

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  test("with 'report' two consumers, and two keys, do not see each other in flight", async () => {
    const one = new InboxUnderTest(target, root, REPORT)
    const other = new InboxUnderTest(target, root, REPORT)
    const winner = await inFlight(one, root)
    expect(await other.process({ id: 'x' })).toMatchObject({ status: 'processed' })
    expect(await one.process({ id: 'y' })).toMatchObject({ status: 'processed' })
    await winner.commit()
  })

  test("with 'report' the connection's setting for lock waits is as before", async () => {
    const subject = new InboxUnderTest(target, root, REPORT)
    const transaction = await root.begin()
    const before = await lockWait(transaction)
    await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    expect(await lockWait(transaction)).toEqual(before)
    await transaction.commit()
  })
})

async function lockWait(transaction: OpenTransaction): Promise<unknown> {
  const setting =
    target.engine === 'postgres' ? "current_setting('lock_timeout')" : '@@innodb_lock_wait_timeout'
  return (await transaction.exec(`select ${setting} as value`))[0]?.['value']
}
