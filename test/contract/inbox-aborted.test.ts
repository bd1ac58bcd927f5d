import { expect, test } from 'vitest'
import { NotInTransactionError, TransactionAbortedError, type TransactionHandle } from '@txbox/core'
import { InboxUnderTest, WAYS, type Handler } from '../support/inbox-under-test.ts'
import { onEachKind, onEachKindAndIsolation, useRoot, useTarget } from '../support/target.ts'

const target = useTarget()
const abortions = Object.entries(target.abortions)

onEachKindAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation })

  for (const way of WAYS) {
    test.for(abortions)(
      `I7 fn swallows the error of %s: TransactionAbortedError, and nothing stays (${way})`,
      async ([, abort]) => {
        const subject = new InboxUnderTest(target, root)
        const error: unknown = await subject
          .deliver(way, { id: 'x' }, async (tx, message, context) => {
            await subject.handle(tx, message, context)
            await abort(tx).catch(() => undefined)
            return 'as if nothing had happened'
          })
          .catch((reason: unknown) => reason)
        expect(error).toBeInstanceOf(TransactionAbortedError)
        expect(error).toMatchObject({ code: 'TXBOX_TRANSACTION_ABORTED' })
        expect([subject.calls, await subject.effects(), await subject.claimedKeys()]).toEqual([1, 0, []])
        expect(await subject.deliver(way, { id: 'x' })).toMatchObject({ status: 'processed' })
        expect(await subject.effects()).toBe(1)
      },
    )

    test(`I7 fn recovers by a savepoint: the transaction is whole, and commits (${way})`, async () => {
      const subject = new InboxUnderTest(target, root)
      const outcome = await subject.deliver(way, { id: 'x' }, async (tx, message, context) => {
        for (const abort of Object.values(target.recoverable)) {
          await target.exec(tx, 'savepoint attempt')
          await abort(tx).catch(() => undefined)
          await target.exec(tx, 'rollback to savepoint attempt')
        }
        return subject.handle(tx, message, context)
      })
      expect(outcome).toMatchObject({ status: 'processed', result: 'handled' })
      expect([await subject.effects(), await subject.claimedKeys()]).toEqual([1, ['x']])
    })
  }

  test('I7 fn swallows the error and has recovered only in its own opinion: a later statement failed too', async () => {
    const subject = new InboxUnderTest(target, root)
    const delivered = subject.process({ id: 'x' }, async (tx, message, context) => {
      await abortWith(tx).catch(() => undefined)
      await Promise.resolve(subject.handle(tx, message, context)).catch(() => undefined)
    })
    await expect(delivered).rejects.toThrow(TransactionAbortedError)
  })

  test('I7 fn throws an error of its own after it swallowed one: that very error comes out', async () => {
    const subject = new InboxUnderTest(target, root)
    const mine = new Error('mine')
    for (const way of WAYS) {
      const delivered = subject.deliver(way, { id: 'x' }, async (tx) => {
        await abortWith(tx).catch(() => undefined)
        throw mine
      })
      await expect(delivered).rejects.toBe(mine)
    }
    expect(await subject.claimedKeys()).toEqual([])
  })

  test('I7 the same in a batch', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    const delivered = subject.inbox.processBatch(transaction.tx, [{ id: 'x' }, { id: 'y' }], async (tx) => {
      await abortWith(tx).catch(() => undefined)
    })
    await expect(delivered).rejects.toThrow(TransactionAbortedError)
    await transaction.rollback()
    expect(await subject.claimedKeys()).toEqual([])
  })

  test('a transaction that was aborted before process is refused, and fn is not called', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    await abortWith(transaction.tx).catch(() => undefined)
    // Where only the server knows, it says no more than that there is no transaction.
    const expected = kind.library === 'mysql2' ? NotInTransactionError : TransactionAbortedError
    await expect(subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)).rejects.toThrow(expected)
    await expect(subject.inbox.processBatch(transaction.tx, [{ id: 'x' }], () => undefined)).rejects.toThrow(
      expected,
    )
    await transaction.rollback()
    expect([subject.calls, await subject.claimedKeys()]).toEqual([0, []])
  })
})

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  test('I7 is noticed each of a hundred times: the driver may know of the error before it knows of the abortion', async () => {
    const subject = new InboxUnderTest(target, root)
    const swallow: Handler = async (tx) => void (await abortWith(tx).catch(() => undefined))
    for (let time = 0; time < 100; time += 1) {
      await expect(subject.process({ id: `m${time}` }, swallow), `time ${time}`).rejects.toThrow(
        TransactionAbortedError,
      )
    }
  })

  test('I7 a statement that fn did not wait for, and that fails, is never reported as processed', async () => {
    const subject = new InboxUnderTest(target, root)
    for (let time = 0; time < 20; time += 1) {
      const unawaited: Handler = async (tx) => {
        const abort = await target.prepareAbortion(tx)
        abort().catch(() => undefined)
      }
      // Kysely says so itself, at its COMMIT; a pg client would roll back there without a word.
      const error = kind.library === 'kysely' ? Error : TransactionAbortedError
      await expect(subject.process({ id: `m${time}` }, unawaited), `time ${time}`).rejects.toThrow(error)
      await expect(subject.inbox.run({ id: `m${time}` }, unawaited), `time ${time}`).rejects.toThrow(error)
    }
    expect(await subject.claimedKeys()).toEqual([])
  })

  for (const statement of ['rollback', 'commit']) {
    test(`I7 fn ends the transaction by ${statement}: TransactionAbortedError`, async () => {
      const subject = new InboxUnderTest(target, root)
      const delivered = subject.process({ id: 'x' }, async (tx) => void (await target.exec(tx, statement)))
      await expect(delivered).rejects.toThrow(TransactionAbortedError)
      const ran = subject.inbox.run({ id: 'y' }, async (tx) => void (await target.exec(tx, statement)))
      await expect(ran).rejects.toThrow(TransactionAbortedError)
    })
  }
})

function abortWith(tx: TransactionHandle): Promise<unknown> {
  const [first] = abortions
  if (first === undefined) throw new Error('The engine has no way to abort a transaction.')
  return first[1](tx)
}
