import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { TransactionConflictError } from '@txbox/core'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { onEachKind, useRoot, useTarget, type OpenTransaction } from '../../support/engines/target.ts'

const target = useTarget()

/** The bound of one wait, and the longest time that a test grants it: MySQL and MariaDB count whole seconds. */
const LOCK_TIMEOUT_MS = 300
const AT_MOST_MS = 4000

onEachKind(target, (kind) => {
  const root = useRoot(target, kind, { max: 4 })

  async function withWinner(subject: InboxUnderTest, work: () => Promise<void>): Promise<void> {
    const winner = await root.begin()
    await subject.inbox.process(winner.tx, { id: 'x' }, subject.handle)
    await work()
    await winner.commit()
  }

  const waits: Record<string, (subject: InboxUnderTest, transaction: OpenTransaction) => Promise<unknown>> = {
    process: (subject, { tx }) => subject.inbox.process(tx, { id: 'x' }, subject.handle),
    markProcessed: (subject, { tx }) => subject.inbox.markProcessed(tx, { id: 'x' }),
    processBatch: (subject, { tx }) =>
      subject.inbox.processBatch(tx, [{ id: 'w' }, { id: 'x' }], () => Promise.resolve()),
  }
  for (const [name, wait] of Object.entries(waits)) {
    test(`${name} waits no longer than lockTimeoutMs, and then throws a TransactionConflictError`, async () => {
      const subject = new InboxUnderTest(target, root, { lockTimeoutMs: LOCK_TIMEOUT_MS })
      await withWinner(subject, async () => {
        const transaction = await root.begin()
        const begun = performance.now()
        await expect(wait(subject, transaction)).rejects.toThrow(TransactionConflictError)
        const tookMs = performance.now() - begun
        await transaction.rollback()
        expect(tookMs).toBeGreaterThan(LOCK_TIMEOUT_MS * 0.9)
        expect(tookMs).toBeLessThan(AT_MOST_MS)
      })
      expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'duplicate' })
      expect([subject.calls, await subject.claimedKeys()]).toEqual([1, ['x']])
    })
  }

  test('run tries again after a wait that took too long', async () => {
    const subject = new InboxUnderTest(target, root, { lockTimeoutMs: LOCK_TIMEOUT_MS })
    await withWinner(subject, async () => {
      const outcome = subject.inbox.run({ id: 'x' }, subject.handle, { attempts: 2 })
      await expect(outcome).rejects.toThrow(/Tried 2 times/)
    })
  })

  test('lockTimeoutMs makes no difference to a claim that need not wait', async () => {
    const subject = new InboxUnderTest(target, root, { lockTimeoutMs: LOCK_TIMEOUT_MS })
    expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'processed', result: 'handled' })
    expect(await subject.inbox.run({ id: 'x' }, subject.handle)).toMatchObject({ status: 'duplicate' })
    await target.expire(subject.consumer)
    expect(await subject.inbox.run({ id: 'x' }, subject.handle)).toMatchObject({ status: 'processed' })
    expect(await subject.effects()).toBe(2)
  })

  test('the setting of the connection is the same within the handler, after the claim, and after a wait', async () => {
    const subject = new InboxUnderTest(target, root, { lockTimeoutMs: 1500 })
    const settings: unknown[] = []
    for (const end of ['commit', 'rollback'] as const) {
      const transaction = await root.begin()
      await setLockWait(transaction)
      settings.push(await lockWait(transaction))
      await subject.inbox.process(transaction.tx, { id: end }, async () => {
        settings.push(await lockWait(transaction))
      })
      settings.push(await lockWait(transaction))
      await transaction[end]()
    }
    await withWinner(subject, async () => {
      const transaction = await root.begin()
      await setLockWait(transaction)
      await transaction.savepoint('s')
      await expect(subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)).rejects.toThrow(
        TransactionConflictError,
      )
      await transaction.rollbackTo('s')
      settings.push(await lockWait(transaction))
      await transaction.rollback()
    })
    expect(new Set(settings.map(String))).toEqual(new Set([target.engine === 'postgres' ? '7s' : '7']))
  })

  test('the setting of the connection is the same after claims side by side, each with its own bound', async () => {
    const subjects = [1500, 3000, 4500].map(
      (lockTimeoutMs) => new InboxUnderTest(target, root, { lockTimeoutMs }),
    )
    const transaction = await root.begin()
    await setLockWait(transaction)
    const settings: unknown[] = []
    const calls: Promise<unknown>[] = []
    for (const id of ['a', 'b', 'c', 'd']) {
      for (const subject of subjects) {
        calls.push(subject.inbox.process(transaction.tx, { id }, subject.handle))
        // Some of the claims begin while another one has its bound set.
        await turn()
      }
    }
    await Promise.all(calls)
    settings.push(await lockWait(transaction))
    await transaction.commit()
    expect(settings.map(String)).toEqual([target.engine === 'postgres' ? '7s' : '7'])
    for (const subject of subjects) expect(await subject.effects()).toBe(4)
  })
})

async function setLockWait(transaction: OpenTransaction): Promise<void> {
  await transaction.exec(
    target.engine === 'postgres' ? "set local lock_timeout = '7s'" : 'set innodb_lock_wait_timeout = 7',
  )
}

async function lockWait(transaction: OpenTransaction): Promise<unknown> {
  const setting =
    target.engine === 'postgres' ? "current_setting('lock_timeout')" : '@@innodb_lock_wait_timeout'
  return (await transaction.exec(`select ${setting} as value`))[0]?.['value']
}
