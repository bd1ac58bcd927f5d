import { randomUUID } from 'node:crypto'
import { expect, inject, test } from 'vitest'
import { NotInTransactionError, TransactionAbortedError, type TransactionHandle } from '@txbox/core'
import { InboxUnderTest, WAYS, type Handler } from '../../support/subjects/inbox-under-test.ts'
import { libraryUnderTest } from '../../support/engines/library-roots.ts'
import {
  onEachKind,
  onEachKindAtUsualIsolation,
  onlyServerKnows,
  useRoot,
  useTarget,
} from '../../support/engines/target.ts'

const target = useTarget()
const abortions = Object.entries(target.abortions)
/** Whether the error or the abortion is reported first is a race. */
const TIMES = inject('tier') === 'all' ? 100 : 25

onEachKindAtUsualIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation })

  for (const way of WAYS) {
    test.for(abortions)(
      `I7 fn swallows the error of %s: TransactionAbortedError, and nothing is stored (${way})`,
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

    test(`I7 fn recovers with a savepoint: the transaction is intact, and commits (${way})`, async () => {
      const subject = new InboxUnderTest(target, root)
      const outcome = await subject.deliver(way, { id: 'x' }, async (tx, message, context) => {
        for (const abort of Object.values(target.recoverable)) {
          if (libraryUnderTest?.takesSavepoints === false) {
            await libraryUnderTest
              .nested(tx, async (inner) => void (await abort(inner as never)))
              .catch(() => undefined)
            continue
          }
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

  test('I7 fn swallows the error, and the error of a later statement: TransactionAbortedError', async () => {
    const subject = new InboxUnderTest(target, root)
    const delivered = subject.process({ id: 'x' }, async (tx, message, context) => {
      await abortWith(tx).catch(() => undefined)
      await Promise.resolve(subject.handle(tx, message, context)).catch(() => undefined)
    })
    await expect(delivered).rejects.toThrow(TransactionAbortedError)
  })

  test('I7 fn throws its own error after it swallowed another one: the caller gets exactly the error of fn', async () => {
    const subject = new InboxUnderTest(target, root)
    const thrown = new Error('from the handler')
    for (const way of WAYS) {
      const delivered = subject.deliver(way, { id: 'x' }, async (tx) => {
        await abortWith(tx).catch(() => undefined)
        throw thrown
      })
      await expect(delivered).rejects.toBe(thrown)
    }
    expect(await subject.claimedKeys()).toEqual([])
  })

  test('I7 fn of a batch swallows an error: TransactionAbortedError, and nothing is stored', async () => {
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
    const expected = onlyServerKnows(target, kind) ? NotInTransactionError : TransactionAbortedError
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

  test('I7 the abortion is detected each time, although the driver may report the error before the abortion', async () => {
    const subject = new InboxUnderTest(target, root)
    const swallow: Handler = async (tx) => void (await abortWith(tx).catch(() => undefined))
    for (let time = 0; time < TIMES; time += 1) {
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
      // Kysely reports the error itself, at its COMMIT; a pg client would roll back silently there.
      const error = kind.driver === 'kysely' ? Error : TransactionAbortedError
      await expect(subject.process({ id: `m${time}` }, unawaited), `time ${time}`).rejects.toThrow(error)
      await expect(subject.inbox.run({ id: `m${time}` }, unawaited), `time ${time}`).rejects.toThrow(error)
    }
    expect(await subject.claimedKeys()).toEqual([])
  })

  const replacements = ['rollback and chain', 'commit and chain', 'rollback | begin', 'commit | begin']
  const withSavepoints = replacements.map((statements) => `savepoint mine | ${statements}`)
  test.for([...replacements, ...withSavepoints])(
    'I7 fn replaces its transaction by another one with %s: TransactionAbortedError',
    async (statements) => {
      const subject = new InboxUnderTest(target, root)
      for (const way of WAYS) {
        const delivered = subject.deliver(way, { id: way }, async (tx, message, context) => {
          for (const statement of statements.split(' | ')) await target.exec(tx, statement)
          return subject.handle(tx, message, context)
        })
        // The library's own error leaves the handler first.
        const refused = statements.includes('begin') && libraryUnderTest?.refusesBegin === true
        await expect(delivered, way).rejects.toThrow(refused ? Error : TransactionAbortedError)
      }
      expect(await subject.effects()).toBe(0)
    },
  )

  test('I7 another delivery claims the key after fn has given up the claim: TransactionAbortedError', async () => {
    const subject = new InboxUnderTest(target, root)
    const delivered = subject.process({ id: 'x' }, async (tx) => {
      await target.exec(tx, 'savepoint mine')
      await target.exec(tx, 'rollback and chain')
      expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'processed' })
    })
    await expect(delivered).rejects.toThrow(TransactionAbortedError)
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([1, ['x']])
  })

  test.for([
    ['at once', false, false],
    ['after a savepoint of its own', true, false],
    ['in a batch', true, true],
  ] as const)(
    'I7 fn rolls back to a savepoint from before the claim %s: TransactionAbortedError',
    async ([, own, batch]) => {
      const subject = new InboxUnderTest(target, root)
      const transaction = await root.begin()
      await transaction.savepoint('outer_one')
      const goBack = async (tx: TransactionHandle): Promise<void> => {
        if (own) await target.exec(tx, 'savepoint mine')
        await target.exec(tx, 'rollback to savepoint outer_one')
      }
      const delivered = batch
        ? subject.inbox.processBatch(transaction.tx, [{ id: 'x' }, { id: 'y' }], goBack)
        : subject.inbox.process(transaction.tx, { id: 'x' }, goBack)
      await expect(delivered).rejects.toThrow(TransactionAbortedError)
      await transaction.rollback()
      expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'processed' })
    },
  )

  test('I7 fn uses its own savepoints, one of them with the name of a savepoint of its caller: processed', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    await transaction.savepoint('outer_one')
    const recover = async (tx: TransactionHandle): Promise<void> => {
      for (const name of ['outer_one', 'mine']) {
        await target.exec(tx, `savepoint ${name}`)
        await target.effect(tx, subject.consumer)
        await target.exec(tx, `rollback to savepoint ${name}`)
        await target.exec(tx, `release savepoint ${name}`)
      }
      await target.effect(tx, subject.consumer)
    }
    expect(await subject.inbox.process(transaction.tx, { id: 'x' }, recover)).toMatchObject({
      status: 'processed',
    })
    const { outcomes } = await subject.inbox.processBatch(transaction.tx, [{ id: 'y' }, { id: 'z' }], recover)
    expect(outcomes.map(({ status }) => status)).toEqual(['processed', 'processed'])
    await transaction.commit()
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([2, ['x', 'y', 'z']])
  })

  test('I7 fn processes another message behind its own savepoint, and rolls back to it: only what came before is stored', async () => {
    const outer = new InboxUnderTest(target, root)
    const inner = new InboxUnderTest(target, root)
    const withSavepoint: Handler = async (tx, message, context) => {
      await target.exec(tx, 'savepoint inner_one')
      await inner.handle(tx, message, context)
      await target.exec(tx, 'release savepoint inner_one')
    }
    for (const handle of [inner.handle, withSavepoint]) {
      const transaction = await root.begin()
      const outcome = await outer.inbox.process(transaction.tx, { id: randomUUID() }, async (tx, ...rest) => {
        await outer.handle(tx, ...rest)
        await target.exec(tx, 'savepoint mine')
        expect(await inner.inbox.process(tx, { id: 'undone' }, handle)).toMatchObject({ status: 'processed' })
        await target.exec(tx, 'rollback to savepoint mine')
        await target.exec(tx, 'release savepoint mine')
      })
      await transaction.commit()
      expect(outcome.status).toBe('processed')
    }
    expect(await outer.effects()).toBe(2)
    expect([await inner.effects(), await inner.claimedKeys()]).toEqual([0, []])
  })

  test('I2 several messages are processed side by side in one transaction, and a key that is delivered twice once', async () => {
    const subject = new InboxUnderTest(target, root)
    for (let time = 0; time < 10; time += 1) {
      const ids = [`a${time}`, `b${time}`, `c${time}`]
      const transaction = await root.begin()
      const outcomes = await Promise.all(
        [...ids, ids[0]!].map((id) => subject.inbox.process(transaction.tx, { id }, subject.handle)),
      )
      await transaction.commit()
      expect(outcomes.map(({ status }) => status)).toEqual([...ids.map(() => 'processed'), 'duplicate'])
    }
    expect(await subject.effects()).toBe(30)
  })

  test('I7 several handlers side by side in one transaction, one of which uses a savepoint, are all processed', async () => {
    const subject = new InboxUnderTest(target, root)
    for (let time = 0; time < 10; time += 1) {
      const ids = ['a', 'b', 'c', 'd'].map((letter) => `${letter}${time}`)
      const transaction = await root.begin()
      const outcomes = await Promise.all(
        ids.map((id, index) =>
          subject.inbox.process(transaction.tx, { id }, async (tx, message, context) => {
            if (index === 2) await target.exec(tx, 'savepoint mine')
            return subject.handle(tx, message, context)
          }),
        ),
      )
      await transaction.commit()
      expect(outcomes.map(({ status }) => status)).toEqual(ids.map(() => 'processed'))
    }
    expect(await subject.effects()).toBe(40)
  })

  test('I7 one of two handlers side by side rolls back to a savepoint from before the claim of the other: the other is not processed', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    const saved = Promise.withResolvers<void>()
    const claimed = Promise.withResolvers<void>()
    const rolledBack = Promise.withResolvers<void>()
    const first = subject.inbox.process(transaction.tx, { id: 'first' }, async (tx) => {
      await target.exec(tx, 'savepoint mine')
      saved.resolve()
      await claimed.promise
      await target.exec(tx, 'rollback to savepoint mine')
      rolledBack.resolve()
    })
    await saved.promise
    const second = subject.inbox.process(transaction.tx, { id: 'second' }, async () => {
      claimed.resolve()
      await rolledBack.promise
    })
    const [one, other] = await Promise.allSettled([first, second])
    await transaction.rollback()
    expect(one).toMatchObject({ status: 'fulfilled', value: { status: 'processed' } })
    expect(other).toMatchObject({ status: 'rejected', reason: expect.any(TransactionAbortedError) })
  })

  for (const statement of ['rollback', 'commit']) {
    test(`I7 fn ends the transaction by ${statement}: TransactionAbortedError`, async () => {
      const subject = new InboxUnderTest(target, root)
      const delivered = subject.process({ id: 'x' }, async (tx) => void (await target.exec(tx, statement)))
      await expect(delivered).rejects.toThrow(TransactionAbortedError)
      const ran = subject.inbox.run({ id: 'y' }, async (tx) => void (await target.exec(tx, statement)))
      await expect(ran).rejects.toThrow(TransactionAbortedError)
      if (statement === 'rollback') return
      await expect(ran).rejects.toThrow(/committed already/)
      expect(await subject.inbox.run({ id: 'y' }, subject.handle)).toMatchObject({ status: 'duplicate' })
    })
  }
})

function abortWith(tx: TransactionHandle): Promise<unknown> {
  const [first] = abortions
  if (first === undefined) throw new Error('The engine has no way to abort a transaction.')
  return first[1](tx)
}
