import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { NotInTransactionError, TransactionAbortedError, type TransactionHandle } from '@txbox/core'
import { createInbox } from '@txbox/inbox'
import { createOutbox } from '@txbox/outbox'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { VersionBufferUnderTest } from '../../support/subjects/version-buffer-under-test.ts'
import { onEachKind, useRoot, useTarget, type OpenTransaction } from '../../support/engines/target.ts'

const target = useTarget()

/** The transaction of the current call chain, as a dependency injection framework keeps it. */
const current = new AsyncLocalStorage<object>()

/** One object for all transactions, as @nestjs-cls/transactional injects it: only reading a property leads to the current one. */
function sharedProxy(root: object): TransactionHandle {
  return new Proxy(root, {
    get(_, name) {
      const tx = current.getStore() ?? root
      const value: unknown = Reflect.get(tx, name)
      return typeof value === 'function' ? (value.bind(tx) as unknown) : value
    },
  }) as TransactionHandle
}

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  async function stored(id: string): Promise<number> {
    return (await target.sql(`select 1 from ${target.outboxTable} where id = ?`, [id])).length
  }

  test('I2 O1 a proxy that is shared by all transactions stands for the transaction of each caller', async () => {
    const subject = new InboxUnderTest(target, root)
    const outbox = createOutbox({ database: root.database })
    const tx = sharedProxy(root.db)
    const ids = { rolledBack: randomUUID(), committed: randomUUID(), late: randomUUID() }
    const [first, second] = [await root.begin(), await root.begin()]
    const inside = <R>({ tx: own }: OpenTransaction, work: () => Promise<R>): Promise<R> =>
      current.run(own, work)
    const process = (transaction: OpenTransaction, key: string): Promise<{ status: string }> =>
      subject.inbox.process(tx, { id: key }, async () => {
        await transaction.exec('insert into effects (name) values (?)', [key])
      })

    // Both transactions are met before either ends.
    const outcomes = await Promise.all([
      inside(first, () => process(first, 'first')),
      inside(second, () => process(second, 'second')),
    ])
    expect(outcomes.map(({ status }) => status)).toEqual(['processed', 'processed'])
    await inside(second, () => outbox.publish(tx, { id: ids.rolledBack, topic: 't', payload: {} }))
    await second.rollback()

    await inside(first, () => outbox.publish(tx, { id: ids.committed, topic: 't', payload: {} }))
    expect((await inside(first, () => process(first, 'third'))).status).toBe('processed')
    await first.commit()
    const late = inside(first, () => outbox.publish(tx, { id: ids.late, topic: 't', payload: {} }))
    await expect(late).rejects.toThrow(NotInTransactionError)

    expect(await subject.claimedKeys()).toEqual(['first', 'third'])
    expect([await stored(ids.rolledBack), await stored(ids.committed), await stored(ids.late)]).toEqual([
      0, 1, 0,
    ])
  })

  test('I2 a handler goes on when another transaction behind the same proxy was begun, and ended', async () => {
    const tx = sharedProxy(root.db)
    const inbox = createInbox({ database: root.database, consumer: randomUUID(), storeResult: true })
    const transaction = await root.begin()
    const outcome = await current.run(transaction.tx, () =>
      inbox.process(tx, { id: 'first' }, async () => {
        const other = await root.begin()
        await current.run(other.tx, () => inbox.process(tx, { id: 'second' }, () => undefined))
        await other.rollback()
        return 'stored by txbox after this handler'
      }),
    )
    await transaction.commit()
    expect(outcome.status).toBe('processed')
    expect((await target.claims(inbox.consumer)).map(({ key }) => key)).toHaveLength(1)
  })

  test.for(['rollback and chain', 'commit and chain'])(
    'I7 a handler that replaces its transaction by %s is noticed, also when the proxy stood for another transaction before',
    async (statement) => {
      const subject = new InboxUnderTest(target, root)
      const tx = sharedProxy(root.db)
      const [first, second] = [await root.begin(), await root.begin()]
      await current.run(first.tx, () => subject.inbox.process(tx, { id: 'first' }, () => undefined))
      const delivered = current.run(second.tx, () =>
        subject.inbox.process(tx, { id: 'second' }, () => target.exec(second.tx, statement)),
      )
      await expect(delivered).rejects.toThrow(TransactionAbortedError)
      await second.rollback()
      await first.commit()
      expect(await subject.claimedKeys()).toEqual(
        statement.startsWith('rollback') ? ['first'] : expect.any(Array),
      )
    },
  )

  test('V7 calls of a version buffer on two transactions behind the same proxy do not wait for each other', async () => {
    const tx = sharedProxy(root.db)
    const applied = Promise.withResolvers<void>()
    const subject = new VersionBufferUnderTest(target, root, {
      apply: (_, { key }) => (key === 'slow' ? applied.promise : applied.resolve()),
    })
    const process = async (key: string): Promise<{ status: string }> => {
      const transaction = await root.begin()
      const message = { key, from: 0, to: 1, payload: { n: 0 } }
      const outcome = await current.run(transaction.tx, () => subject.buffer.process(tx, message))
      await transaction.commit()
      return outcome
    }
    const outcomes = await Promise.all(['slow', 'quick'].map(process))
    expect(outcomes.map(({ status }) => status)).toEqual(['applied', 'applied'])
  })

  test('outside a transaction the proxy is refused, and nothing is written', async () => {
    const subject = new InboxUnderTest(target, root)
    const refused = subject.inbox.process(sharedProxy(root.db), { id: 'm' }, subject.handle)
    // A library of the user's own may know its root by identity alone.
    await expect(refused).rejects.toMatchObject({
      code: expect.stringMatching(/^TXBOX_(NOT_IN|UNSUPPORTED)_TRANSACTION$/) as string,
    })
    expect([subject.calls, await subject.claimedKeys()]).toEqual([0, []])
  })
})
