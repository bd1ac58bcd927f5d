import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { TransactionAbortedError, TransactionConflictError, isTxboxError } from '@txbox/core'
import { expectDeadlockToBeRetried } from '../../support/subjects/deadlocked-handlers.ts'
import { InboxUnderTest, WAYS, type Handler } from '../../support/subjects/inbox-under-test.ts'
import {
  ISOLATIONS,
  onEachKind,
  onEachKindAndIsolation,
  useRoot,
  useTarget,
  type OpenTransaction,
} from '../../support/engines/target.ts'

const target = useTarget()

onEachKindAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation, max: 6 })

  test('I5 a delivery that waits too long for a lock gets a TransactionConflictError, never a duplicate', async () => {
    const subject = new InboxUnderTest(target, root)
    const winner = await root.begin()
    await subject.inbox.process(winner.tx, { id: 'x' }, subject.handle)
    const loser = await root.begin()
    await target.limitLockWait(loser, 100)
    const error = await rejection(subject.inbox.process(loser.tx, { id: 'x' }, subject.handle))
    await loser.rollback()
    await winner.rollback()
    expectConflict(error)
    expect([subject.calls, await subject.claimedKeys()]).toEqual([1, []])
  })

  test('I5 two transactions that claim two keys in opposite order get one conflict, and both take effect in the end', async () => {
    const subject = new InboxUnderTest(target, root)
    const [one, other] = [await root.begin(), await root.begin()]
    await subject.inbox.process(one.tx, { id: 'a' }, subject.handle)
    await subject.inbox.process(other.tx, { id: 'b' }, subject.handle)
    const attempts = await Promise.all([
      finish(one, subject.inbox.process(one.tx, { id: 'b' }, subject.handle)),
      finish(other, subject.inbox.process(other.tx, { id: 'a' }, subject.handle)),
    ])
    // The claim of the first key by the transaction that the server rolled back has no effect.
    expect(attempts.map((attempt) => ('error' in attempt ? 'conflict' : attempt.status)).toSorted()).toEqual([
      'conflict',
      'processed',
    ])
    for (const attempt of attempts) if ('error' in attempt) expectConflict(attempt.error)
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([2, ['a', 'b']])
  })

  test('I6 a duplicate leaves the transaction usable: later statements commit', async () => {
    const subject = new InboxUnderTest(target, root)
    await subject.process({ id: 'x' })
    const transaction = await root.begin()
    await target.effect(transaction.tx, subject.consumer)
    expect(await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)).toMatchObject({
      status: 'duplicate',
    })
    await target.effect(transaction.tx, subject.consumer)
    expect(await subject.inbox.process(transaction.tx, { id: 'y' }, subject.handle)).toMatchObject({
      status: 'processed',
    })
    await transaction.commit()
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([4, ['x', 'y']])
  })

  test('I6 a live duplicate writes nothing', async () => {
    const subject = new InboxUnderTest(target, root)
    await subject.process({ id: 'x' })
    const transaction = await root.begin()
    await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    await subject.inbox.processBatch(transaction.tx, [{ id: 'x' }, { id: 'x' }], () => undefined)
    const wrote = await target.hasWritten(transaction)
    // The same query for a transaction that has written, to check that it can return true.
    await subject.inbox.process(transaction.tx, { id: 'y' }, subject.handle)
    const wroteThen = await target.hasWritten(transaction)
    await transaction.commit()
    expect([wrote, wroteThen]).toEqual([false, true])
  })

  test('I6 duplicates in opposite order do not wait for each other', async () => {
    const subject = new InboxUnderTest(target, root)
    for (const id of ['a', 'b']) await subject.process({ id })
    const [one, other] = [await root.begin(), await root.begin()]
    for (const transaction of [one, other]) await target.limitLockWait(transaction, 1)
    for (const [transaction, id] of [
      [one, 'a'],
      [other, 'b'],
      [one, 'b'],
      [other, 'a'],
    ] as const) {
      expect(await subject.inbox.process(transaction.tx, { id }, subject.handle)).toMatchObject({
        status: 'duplicate',
      })
    }
    await one.commit()
    await other.commit()
  })
})

onEachKind(target, (kind) => {
  const root = useRoot(target, kind, { max: 6 })

  test('I5 run retries a conflict of the handler, each time in a new transaction', () =>
    expectDeadlockToBeRetried(target, root))

  test('I5 a conflict of the handler of process reaches the caller, and nothing is stored', async () => {
    const subject = new InboxUnderTest(target, root)
    const conflict = await aConflict()
    await expect(subject.process({ id: 'x' }, failing(subject, conflict, Infinity))).rejects.toBe(conflict)
    expect([subject.calls, await subject.effects(), await subject.claimedKeys()]).toEqual([1, 0, []])
  })

  test('I5 run gives up after its attempts, with the conflict, and nothing is stored', async () => {
    const subject = new InboxUnderTest(target, root)
    const conflict = await aConflict()
    const error = await rejection(
      subject.inbox.run({ id: 'x' }, failing(subject, conflict, Infinity), { attempts: 2 }),
    )
    expect(error === conflict || error instanceof TransactionConflictError).toBe(true)
    expect([subject.calls, await subject.effects(), await subject.claimedKeys()]).toEqual([2, 0, []])
  })

  test('I5 run makes one attempt with attempts: 1', async () => {
    const subject = new InboxUnderTest(target, root)
    const error = await rejection(
      subject.inbox.run({ id: 'x' }, failing(subject, await aConflict(), Infinity), { attempts: 1 }),
    )
    expect(error).toBeDefined()
    expect(subject.calls).toBe(1)
  })

  test('I5 run retries a conflict that the handler has wrapped in its own error', async () => {
    const subject = new InboxUnderTest(target, root)
    const wrapped = new Error('charging failed', { cause: await aConflict() })
    expect(await subject.inbox.run({ id: 'x' }, failing(subject, wrapped, 1))).toMatchObject({
      status: 'processed',
    })
    expect([subject.calls, await subject.effects()]).toEqual([2, 1])
  })

  test('I5 run does not retry errors that are not conflicts', async () => {
    const subject = new InboxUnderTest(target, root)
    const errors = [
      new Error('business'),
      Object.assign(new Error('not from a database'), { code: 'ECONNRESET' }),
      await rejectionOf((transaction) => transaction.exec('select * from no_such_table')),
    ]
    for (const error of errors) {
      subject.calls = 0
      await expect(subject.inbox.run({ id: 'x' }, failing(subject, error, Infinity))).rejects.toBe(error)
      expect(subject.calls).toBe(1)
    }
  })

  test('I5 an aborted signal ends the retries', async () => {
    const subject = new InboxUnderTest(target, root)
    const conflict = await aConflict()
    const shutdown = new AbortController()
    const fn: Handler = async (tx, message, context) => {
      await subject.handle(tx, message, context)
      shutdown.abort(new Error('shutting down'))
      throw conflict
    }
    await expect(
      subject.inbox.run({ id: 'x' }, fn, { signal: shutdown.signal, attempts: 10 }),
    ).rejects.toThrow('shutting down')
    expect([subject.calls, await subject.claimedKeys()]).toEqual([1, []])
  })

  /** A real conflict of this database, as its driver reports it: a lock that was not available in time. */
  async function aConflict(): Promise<unknown> {
    const name = `locked-${Math.random()}`
    await target.sql('insert into counters (name, n) values (?, 0)', [name])
    const holder = await root.begin()
    await holder.exec('update counters set n = 1 where name = ?', [name])
    const error = await rejectionOf(async (transaction) => {
      await target.limitLockWait(transaction, 1)
      await transaction.exec('update counters set n = 2 where name = ?', [name])
    })
    await holder.rollback()
    expect(isTxboxError(error)).toBe(false)
    return error
  }

  async function rejectionOf(work: (transaction: OpenTransaction) => Promise<unknown>): Promise<unknown> {
    const transaction = await root.begin()
    const error = await rejection(work(transaction))
    await transaction.rollback()
    return error
  }
})

for (const isolation of ISOLATIONS.filter((level) => target.refusesNewer(level))) {
  describe.each(target.kinds)(`${isolation}, $name`, (kind) => {
    const root = useRoot(target, kind, { isolation })

    test(`I5 a claim that is newer than the snapshot is a conflict, never a duplicate; run tries again (${kind.name})`, async () => {
      const subject = new InboxUnderTest(target, root)
      const early = await withSnapshot()
      await subject.process({ id: 'x' })
      const error = await rejection(subject.inbox.process(early.tx, { id: 'x' }, subject.handle))
      await early.rollback()
      expectConflict(error)
      expect(await subject.inbox.run({ id: 'x' }, subject.handle)).toMatchObject({ status: 'duplicate' })
      expect(await subject.effects()).toBe(1)
    })

    test('I5 I9 a claim that was taken over or forgotten since the snapshot is a conflict too', async () => {
      const subject = new InboxUnderTest(target, root)
      await subject.process({ id: 'renewed' })
      await subject.process({ id: 'forgotten' })
      const [early, other] = [await withSnapshot(), await withSnapshot()]
      await target.expire(subject.consumer, 'renewed')
      await subject.process({ id: 'renewed' })
      const collector = await root.begin()
      await subject.inbox.forget(collector.tx, { id: 'forgotten' })
      await collector.commit()
      const errors = [
        await rejection(subject.inbox.process(early.tx, { id: 'renewed' }, subject.handle)),
        await subject.inbox
          .process(other.tx, { id: 'forgotten' }, subject.handle)
          .catch((error: unknown) => error),
      ]
      await early.rollback()
      await other.rollback()
      expectConflict(errors[0])
      // PostgreSQL keeps no trace of a deleted row, so the key can be claimed again.
      if (target.engine === 'mariadb') expectConflict(errors[1])
      expect(await subject.inbox.run({ id: 'renewed' }, subject.handle)).toMatchObject({
        status: 'duplicate',
      })
      expect(await subject.inbox.run({ id: 'forgotten' }, subject.handle)).toMatchObject({
        status: 'processed',
      })
    })

    test('I5 I13 a newer claim in a batch is a conflict too, and nothing of the batch is stored', async () => {
      const subject = new InboxUnderTest(target, root)
      const early = await withSnapshot()
      await subject.process({ id: 'b' })
      const batch = ['a', 'b', 'c'].map((id) => ({ id }))
      const error = await rejection(
        subject.inbox.processBatch(early.tx, batch, (tx) => target.effect(tx, subject.consumer)),
      )
      await early.rollback()
      expectConflict(error)
      expect([await subject.effects(), await subject.claimedKeys()]).toEqual([1, ['b']])
    })

    test('I7 fn swallows its own conflict: TransactionAbortedError, and nothing is stored', async () => {
      const subject = new InboxUnderTest(target, root)
      const name = `changed-${randomUUID()}`
      await target.sql('insert into counters (name, n) values (?, 0)', [name])
      const swallow: Handler = async (tx, message, context) => {
        await subject.handle(tx, message, context)
        await target.exec(tx, 'select n from counters where name = ?', [name])
        await target.sql('update counters set n = n + 1 where name = ?', [name])
        await target.exec(tx, 'update counters set n = 0 where name = ?', [name]).catch(() => undefined)
      }
      for (const way of WAYS) {
        await expect(subject.deliver(way, { id: 'x' }, swallow)).rejects.toThrow(TransactionAbortedError)
      }
      expect([subject.calls, await subject.effects(), await subject.claimedKeys()]).toEqual([2, 0, []])
      // If the handler does not swallow the error, it is a conflict, and run tries again.
      let calls = 0
      const leave: Handler<string> = async (tx, message, context) => {
        await target.exec(tx, 'select n from counters where name = ?', [name])
        calls += 1
        if (calls === 1) await target.sql('update counters set n = n + 1 where name = ?', [name])
        await target.exec(tx, 'update counters set n = 0 where name = ?', [name])
        return subject.handle(tx, message, context)
      }
      expect(await subject.inbox.run({ id: 'x' }, leave)).toMatchObject({ status: 'processed' })
      expect([calls, await subject.effects()]).toEqual([2, 1])
    })

    async function withSnapshot(): Promise<OpenTransaction> {
      const transaction = await root.begin()
      await transaction.exec('select count(*) from effects')
      return transaction
    }
  })
}

function expectConflict(error: unknown): void {
  expect(error).toBeInstanceOf(TransactionConflictError)
  expect(error).toMatchObject({
    code: 'TXBOX_TRANSACTION_CONFLICT',
    retryable: true,
    cause: expect.anything(),
  })
}

/** Handles, and then throws `error` in the first `times` attempts. */
function failing(subject: InboxUnderTest, error: unknown, times: number): Handler<string> {
  return async (tx, message, context) => {
    await subject.handle(tx, message, context)
    if (context.attempt <= times) throw error
    return 'handled'
  }
}

async function rejection(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('It should have been rejected.')
}

/** Commits or rolls back, depending on the outcome. */
async function finish<T extends object>(
  transaction: OpenTransaction,
  work: Promise<T>,
): Promise<T | { error: unknown }> {
  try {
    const outcome = await work
    await transaction.commit()
    return outcome
  } catch (error) {
    await transaction.rollback()
    return { error }
  }
}
