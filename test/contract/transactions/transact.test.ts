import { setImmediate as nextTurn, setTimeout } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import {
  InvalidOptionError,
  type IsolationLevel,
  type TransactOptions,
  type TransactionHandle,
} from '@txbox/core'
import type { InboxOutcome } from '@txbox/inbox'
import { InboxUnderTest, type Handler } from '../../support/subjects/inbox-under-test.ts'
import { libraryUnderTest } from '../../support/engines/library-roots.ts'
import { onEachKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()

onEachKind(target, (kind) => {
  // A library that keeps broken connections loses one with each transaction that is given up.
  const root = useRoot(target, kind, libraryUnderTest?.losesBrokenConnection === true ? { max: 20 } : {})

  test.for<[string, unknown]>([
    ['an isolation level that is none', { isolation: 'snapshot' }],
    ['SQL in the place of an isolation level', { isolation: 'read committed; drop table effects; -- ' }],
    ['an isolation level in capitals', { isolation: 'SERIALIZABLE' }],
    ['an isolation level of null', { isolation: null }],
    ['an isolation level that an object has by inheritance', { isolation: 'constructor' }],
    ['a misspelt option', { isolationLevel: 'serializable' }],
    ['a signal that is none', { signal: {} }],
    ['options that are no object', 'serializable'],
    ['no options but null', null],
  ])('transact refuses %s, and runs nothing', async ([, options]) => {
    let ran = false
    const transacted = root.database.transact(async () => void (ran = true), options as TransactOptions)
    await expect(transacted).rejects.toThrow(InvalidOptionError)
    expect(ran).toBe(false)
    await target.sql('select * from effects')
  })

  test.for<[IsolationLevel | undefined]>([
    ['read committed'],
    ['repeatable read'],
    ['serializable'],
    [undefined],
  ])('transact takes the isolation level %s, and commits', async ([isolation]) => {
    const subject = new InboxUnderTest(target, root)
    const { signal } = new AbortController()
    const work = (tx: TransactionHandle): Promise<InboxOutcome> =>
      subject.inbox.process(tx, { id: 'x' }, subject.handle)
    expect(await root.database.transact(work, { isolation, signal })).toMatchObject({ status: 'processed' })
    expect(await subject.effects()).toBe(1)
  })

  test('transact whose signal is aborted runs nothing, and rejects with the reason', async () => {
    const reason = new Error('no longer wanted')
    const work = (): Promise<never> => Promise.reject(new Error('It ran.'))
    const transacted = root.database.transact(work, { signal: AbortSignal.abort(reason) })
    await expect(transacted).rejects.toBe(reason)
  })

  // On MySQL and MariaDB only a deadlock rolls back. A library that hides its connection hides the failure as well.
  if (target.engine === 'postgres' && kind.driver !== 'hidden') {
    test.for([false, true])(
      'I7 I10 a statement that nobody awaited fails before COMMIT: run and transact report what the server has done (stored result: %s)',
      async (storeResult) => {
        const subject = new InboxUnderTest(target, root, { storeResult })
        const [abort] = Object.values(target.abortions)
        const processed: string[] = []
        for (let turns = 0; turns < 30; turns += 1) {
          const id = String(turns)
          const outcome = subject.inbox.run({ id }, async (tx, message, context) => {
            await subject.handle(tx, message, context)
            void (async () => {
              for (let turn = 0; turn < turns; turn += 1) await nextTurn()
              await abort!(tx)
            })().catch(() => undefined)
            return 'stored'
          })
          await outcome.then(
            () => processed.push(id),
            () => undefined,
          )
        }
        expect(await subject.claimedKeys()).toEqual(processed.toSorted())
        expect(await subject.effects()).toBe(processed.length)
      },
    )
  }

  /** A handler that hangs after an effect, until it is released. */
  function hanging(subject: InboxUnderTest): {
    readonly handler: Handler<string>
    readonly begun: Promise<void>
    readonly goOn: () => Promise<unknown>
  } {
    const begun = Promise.withResolvers<void>()
    const waiting = Promise.withResolvers<void>()
    const late = Promise.withResolvers<unknown>()
    return {
      begun: begun.promise,
      async handler(tx) {
        await target.effect(tx, subject.consumer)
        begun.resolve()
        await waiting.promise
        const written = target.effect(tx, subject.consumer)
        late.resolve(written.catch((error: unknown) => error))
        await written
        return 'late'
      },
      goOn() {
        waiting.resolve()
        return late.promise
      },
    }
  }

  for (const way of ['run', 'transact'] as const) {
    test(`I2 a handler that hangs is given up when the signal is aborted, and commits nothing later (${way})`, async () => {
      // A library that keeps a connection whose ROLLBACK has failed needs another one.
      const single = target.open(kind, { max: libraryUnderTest?.losesBrokenConnection === true ? 2 : 1 })
      await single.ready?.()
      onTestFinished(() => single.close())
      const subject = new InboxUnderTest(target, single)
      const { handler, begun, goOn } = hanging(subject)
      const controller = new AbortController()
      const { signal } = controller
      const given =
        way === 'run'
          ? subject.inbox.run({ id: 'x' }, handler, { signal })
          : single.database.transact((tx) => subject.inbox.process(tx, { id: 'x' }, handler), { signal })
      await begun
      const reason = new Error('took too long')
      controller.abort(reason)
      // A library that hides its connection might send later statements on the connection of another transaction.
      if (kind.hidesConnection === true) {
        expect(await Promise.race([given.catch(() => 'given up'), setTimeout(100, 'waits')])).toBe('waits')
        await goOn()
      }
      await expect(given).rejects.toBe(reason)

      // The handler continues while the next transaction has the only connection of the pool.
      const next = await single.begin()
      await next.exec('select 1 as one')
      await goOn()
      await next.commit()
      expect([await subject.effects(), await subject.claimedKeys()]).toEqual([0, []])
      expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'processed' })
      expect(await subject.effects()).toBe(1)
    })
  }

  // In `run` txbox has met the connection before the handler sends anything; in `transact` it has not.
  for (const way of ['run', 'transact'] as const) {
    test(`I2 no later statement of work that was given up during a statement is committed (${way})`, async () => {
      const subject = new InboxUnderTest(target, root)
      const row = `locked ${subject.consumer}`
      await target.sql(`insert into effects (name) values ('${row}')`)
      const lock = `update effects set name = name where name = '${row}'`
      const holder = await root.begin()
      await holder.exec(lock)
      const ended = Promise.withResolvers<void>()
      const work = async (tx: TransactionHandle): Promise<void> => {
        try {
          await target.exec(tx, lock)
          for (let n = 0; n < 5; n++) await target.effect(tx, subject.consumer)
        } finally {
          ended.resolve()
        }
      }
      const controller = new AbortController()
      const { signal } = controller
      const given =
        way === 'run'
          ? subject.inbox.run({ id: 'x' }, work, { signal })
          : root.database.transact(work, { signal })
      const rejected = expect(given).rejects.toThrow('took too long')
      await target.blocked(1)
      controller.abort(new Error('took too long'))
      await holder.commit()
      await rejected
      await ended.promise
      expect([await subject.effects(), await subject.claimedKeys()]).toEqual([0, []])
      expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'processed' })
    })
  }

  test('I2 a signal that is aborted after the work has ended changes nothing', async () => {
    const subject = new InboxUnderTest(target, root)
    const controller = new AbortController()
    const handler: Handler<string> = async (tx, message, context) => {
      const result = await subject.handle(tx, message, context)
      setImmediate(() => controller.abort())
      return result
    }
    const { signal } = controller
    const outcome = await subject.inbox.run({ id: 'x' }, handler, { signal }).catch(() => undefined)
    expect(await subject.effects()).toBe(outcome === undefined ? 0 : 1)
    expect(await subject.inbox.run({ id: 'y' }, subject.handle)).toMatchObject({ status: 'processed' })
  })

  test('I2 a handler whose statement waits for a lock is given up, and its locks are finally released', async () => {
    const subject = new InboxUnderTest(target, root)
    const winner = await root.begin()
    await subject.inbox.process(winner.tx, { id: 'x' }, subject.handle)
    const controller = new AbortController()
    const given = subject.inbox.run({ id: 'x' }, subject.handle, { signal: controller.signal })
    await target.blocked(1)
    const reason = new Error('took too long')
    controller.abort(reason)
    const rejected = expect(given).rejects.toBe(reason)
    await winner.rollback()
    await rejected
    // The claim may have been won by then, but the handler does not begin.
    expect(subject.calls).toBe(1)
    expect(await subject.inbox.run({ id: 'x' }, subject.handle)).toMatchObject({ status: 'processed' })
    expect(await subject.effects()).toBe(1)
  })
})
