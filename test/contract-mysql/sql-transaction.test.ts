import type { PoolConnection } from 'mysql2'
import { expect, onTestFinished, test } from 'vitest'
import {
  NotInTransactionError,
  UnsupportedTransactionError,
  sqlTransaction,
  type SqlTransaction,
} from '@txbox/core'
import { InboxUnderTest } from '../support/subjects/inbox-under-test.ts'
import { outboxOf } from '../support/subjects/relay-under-test.ts'
import { useRoot, useTarget, type OpenTransaction } from '../support/engines/target.ts'

const target = useTarget()
const kind = target.kinds.find(({ name }) => name.includes('callback'))!
const root = useRoot(target, kind)

type Send = (text: string) => Promise<unknown>

async function begin(): Promise<{ send: Send; prepare: Send; transaction: OpenTransaction }> {
  const transaction = await root.begin()
  onTestFinished(() => transaction.rollback().catch(() => undefined))
  const connection = (transaction.tx as unknown as PoolConnection).promise()
  return {
    send: async (text) => (await connection.query(text))[0],
    prepare: async (text) => (await connection.execute(text))[0],
    transaction,
  }
}

function wrapped(send: Send): SqlTransaction {
  return sqlTransaction({
    name: 'mine',
    query: async (text) => {
      const answer = await send(text)
      return Array.isArray(answer)
        ? { rows: answer as object[] }
        : { rowCount: (answer as { affectedRows: number }).affectedRows }
    },
  })
}

test('a transaction that is wrapped again for each call is one transaction', async () => {
  const subject = new InboxUnderTest(target, root)
  const { send, transaction } = await begin()
  const { status } = await subject.inbox.process(wrapped(send), { id: 'outer' }, async () => {
    const inner = await subject.inbox.process(wrapped(send), { id: 'inner' }, () => undefined)
    return inner.status
  })
  await transaction.commit()
  expect([status, await subject.claimedKeys()]).toEqual(['processed', ['inner', 'outer']])
})

test.for([[{}], [{ inFlight: 'report' }], [{ lockTimeoutMs: 1000 }]] as const)(
  'a transaction that ends after it was found open: what was written outside of it is deleted again (%o)',
  async ([options]) => {
    const subject = new InboxUnderTest(target, root, options)
    const { send } = await begin()
    const endBefore = (pattern: RegExp): SqlTransaction =>
      wrapped(async (text) => {
        if (pattern.test(text)) await send('rollback')
        return send(text)
      })
    const ended = endBefore(/^\s*(?:set statement .* for\s+)?insert into \S*inbox/i)
    await expect(subject.inbox.process(ended, { id: 'x' }, subject.handle)).rejects.toThrow(
      NotInTransactionError,
    )
    await send('start transaction')
    const batch = subject.inbox.processBatch(ended, [{ id: 'x' }, { id: 'y' }], () => undefined)
    await expect(batch).rejects.toThrow(NotInTransactionError)
    await send('start transaction')
    const publishing = outboxOf(root).publish(endBefore(/^\s*insert into \S*outbox/i), {
      topic: 't',
      payload: 1,
    })
    await expect(publishing).rejects.toThrow(NotInTransactionError)
    const stored = await target.sql(`select 1 from ${target.outboxTable}`)
    expect([subject.calls, await subject.claimedKeys(), stored]).toEqual([0, [], []])
  },
)

test('statements that are sent as prepared ones are refused where the server prepares no savepoints', async () => {
  const subject = new InboxUnderTest(target, root)
  const { prepare, transaction } = await begin()
  const processed = subject.inbox.process(wrapped(prepare), { id: 'x' }, () => undefined)
  if (target.engine === 'mysql') {
    await expect(processed).rejects.toThrow(UnsupportedTransactionError)
    await transaction.rollback()
    return
  }
  expect((await processed).status).toBe('processed')
  await transaction.commit()
})
