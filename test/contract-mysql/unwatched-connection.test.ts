import type { PoolConnection } from 'mysql2'
import { expect, onTestFinished, test } from 'vitest'
import { NotInTransactionError, TransactionAbortedError, type TransactionHandle } from '@txbox/core'
import { InboxUnderTest } from '../support/subjects/inbox-under-test.ts'
import { outboxOf } from '../support/subjects/relay-under-test.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const kind = target.kinds.find(({ name }) => name.includes('callback'))!
const root = useRoot(target, kind)

/** A connection wrapped by another library, so that its statements cannot be observed from outside. */
async function begin(): Promise<{
  tx: TransactionHandle
  end: (how: 'commit' | 'rollback') => Promise<void>
}> {
  const transaction = await root.begin()
  onTestFinished(() => transaction.rollback().catch(() => undefined))
  const connection = transaction.tx as unknown as PoolConnection
  const bound = ['query', 'execute', 'beginTransaction', 'on', 'off'].map((name) => {
    const method = Reflect.get(connection, name) as (...all: unknown[]) => unknown
    return [name, method.bind(connection)] as const
  })
  return {
    tx: Object.fromEntries(bound) as unknown as TransactionHandle,
    end: (how) => transaction[how](),
  }
}

test('a connection that cannot be monitored can still be used', async () => {
  const subject = new InboxUnderTest(target, root)
  const { tx, end } = await begin()
  const outcomes = [
    await subject.inbox.process(tx, { id: 'x' }, subject.handle),
    await subject.inbox.process(tx, { id: 'x' }, subject.handle),
  ]
  await outboxOf(root).publish(tx, { topic: 't', payload: 1 })
  await end('commit')
  expect(outcomes.map(({ status }) => status)).toEqual(['processed', 'duplicate'])
  expect([await subject.effects(), await subject.claimedKeys()]).toEqual([1, ['x']])
})

test('I7 a transaction that DDL has ended is detected after the handler, and before a message is stored', async () => {
  const subject = new InboxUnderTest(target, root)
  const { tx } = await begin()
  const delivered = subject.inbox.process(tx, { id: 'x' }, async () => {
    await target.exec(tx, 'create table if not exists side_effect (n int)')
  })
  await expect(delivered).rejects.toThrow(TransactionAbortedError)
  await expect(outboxOf(root).publish(tx, { topic: 't', payload: 1 })).rejects.toThrow(NotInTransactionError)
})

test('outside a transaction such a connection is refused, and the claim is deleted again', async () => {
  const subject = new InboxUnderTest(target, root)
  const { tx } = await begin()
  await target.exec(tx, 'commit')
  await expect(subject.inbox.process(tx, { id: 'x' }, subject.handle)).rejects.toThrow(NotInTransactionError)
  await expect(subject.inbox.processBatch(tx, [{ id: 'x' }, { id: 'y' }], () => undefined)).rejects.toThrow(
    NotInTransactionError,
  )
  expect([subject.calls, await subject.claimedKeys()]).toEqual([0, []])
})

test('outside a transaction the renewal of an expired claim is refused, too, and the claim is deleted', async () => {
  const subject = new InboxUnderTest(target, root)
  await subject.process({ id: 'x' })
  await target.expire(subject.consumer)
  const { tx } = await begin()
  await target.exec(tx, 'commit')
  await expect(subject.inbox.process(tx, { id: 'x' }, subject.handle)).rejects.toThrow(NotInTransactionError)
  expect([subject.calls, await subject.claimedKeys()]).toEqual([1, []])
})
