import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { TransactionAbortedError, TransactionConflictError, type TransactionHandle } from '@txbox/core'
import { createOutbox } from '@txbox/outbox'
import { expectDeadlockToBeRetried } from '../support/subjects/deadlocked-handlers.ts'
import { InboxUnderTest, WAYS } from '../support/subjects/inbox-under-test.ts'
import { libraryRoot, libraryUnderTest } from '../support/engines/library-roots.ts'
import { rootThroughProxy } from '../support/engines/root-through-proxy.ts'
import type { HandleKind, Root, Target } from '../support/engines/target.ts'

/**
 * The rules of the inbox with every library, version and driver, one test for each rule. The contract suite tests them in
 * detail, with the libraries whose projects in `vitest.config.ts` run it.
 *
 * @param isAlone there is one connection only, as on PGlite.
 */
export function inboxRules(target: Target, root: Root, kind: HandleKind, isAlone: boolean): void {
  test('I1 I6 a duplicate is a result, and leaves the transaction usable', async () => {
    const subject = new InboxUnderTest(target, root)
    await subject.process({ id: 'x' })
    const [claim] = await target.claims(subject.consumer)
    await libraryRoot(root).transact(async (handle) => {
      const tx = handle as TransactionHandle
      expect(await subject.inbox.process(tx, { id: 'x' }, subject.handle)).toEqual({
        ...{ status: 'duplicate', key: 'x', firstProcessedAt: claim!.processedAt },
      })
      await target.effect(tx, subject.consumer)
      expect(await subject.inbox.process(tx, { id: 'y' }, subject.handle)).toMatchObject({
        status: 'processed',
      })
    })
    expect([subject.calls, await subject.effects(), await subject.claimedKeys()]).toEqual([2, 3, ['x', 'y']])
  })

  test('I9 an expired claim is renewed, once', async () => {
    const subject = new InboxUnderTest(target, root)
    await subject.process({ id: 'x' })
    await target.expire(subject.consumer)
    const deliveries = Array.from({ length: 4 }, () =>
      isAlone ? subject.process({ id: 'x' }) : subject.processUntilSettled({ id: 'x' }),
    )
    const statuses = (await Promise.all(deliveries)).map(({ status }) => status)
    expect(statuses.toSorted()).toEqual(['duplicate', 'duplicate', 'duplicate', 'processed'])
    expect(await subject.effects()).toBe(2)
    const [claim] = await target.claims(subject.consumer)
    expect(claim!.expiresAt > (await target.now())).toBe(true)
  })

  test('I13 a batch claims its new messages and renews the expired ones, in the order of the messages', async () => {
    const subject = new InboxUnderTest(target, root)
    for (const id of ['live', 'expired']) await subject.process({ id })
    await target.expire(subject.consumer, 'expired')
    const fresh: string[] = []
    const { outcomes, result } = await libraryRoot(root).transact((tx) =>
      subject.inbox.processBatch(
        tx as TransactionHandle,
        ['new', 'live', 'expired', 'new', "it's \\ ü"].map((id) => ({ id })),
        async (own, messages) => {
          for (const { id } of messages) fresh.push(id)
          await target.effect(own, subject.consumer)
          return messages.length
        },
      ),
    )
    expect(outcomes.map(({ status }) => status)).toEqual([
      ...['processed', 'duplicate', 'processed', 'duplicate', 'processed'],
    ])
    expect([result, fresh]).toEqual([3, ['new', 'expired', "it's \\ ü"]])
    expect([await subject.effects(), (await subject.claimedKeys()).length]).toEqual([3, 4])
  })

  if (!isAlone) {
    concurrent(target, root)
    roundTrips(target, kind)
    return
  }
  // The other projects run test/contract/inbox/inbox-aborted.test.ts, which needs more than one connection.
  test.each(WAYS)(
    'I7 fn swallows an error: TransactionAbortedError, and nothing is stored (%s)',
    async (way) => {
      const subject = new InboxUnderTest(target, root)
      const [abort] = Object.values(target.abortions)
      const delivered = subject.deliver(way, { id: 'x' }, async (tx, message, context) => {
        await subject.handle(tx, message, context)
        await abort!(tx).catch(() => undefined)
        return 'as if nothing had happened'
      })
      await expect(delivered).rejects.toThrow(TransactionAbortedError)
      expect([subject.calls, await subject.effects(), await subject.claimedKeys()]).toEqual([1, 0, []])
    },
  )
}

function concurrent(target: Target, root: Root): void {
  test('I5 run retries a deadlock of the handler, each time in a new transaction', () =>
    expectDeadlockToBeRetried(target, root))

  // On MySQL and MariaDB, readers at SERIALIZABLE lock, so that the handler's own statements wait or deadlock.
  if (target.engine === 'postgres') {
    test('I5 a conflict at SERIALIZABLE is a conflict, even if only the check after the handler meets it', async () => {
      const subject = new InboxUnderTest(target, root)
      const names = [`${subject.consumer}-1`, `${subject.consumer}-2`] as const
      const bothWrote = Promise.withResolvers<void>()
      let writers = 0
      /** Each reads what the other one writes. The first has committed when the second ends. */
      const process = (n: 0 | 1, before?: Promise<unknown>): Promise<unknown> =>
        root.database.transact(
          (tx: TransactionHandle) =>
            subject.inbox.process(tx, { id: names[n] }, async (own) => {
              await target.exec(own, 'select n from counters where name = ?', [names[1 - n]!])
              await target.exec(own, 'insert into counters (name, n) values (?, 1)', [names[n]])
              if ((writers += 1) === 2) bothWrote.resolve()
              await bothWrote.promise
              await before
            }),
          { isolation: 'serializable' },
        )
      const committed = process(0)
      const [first, second] = await Promise.allSettled([committed, process(1, committed)])
      expect(first.status).toBe('fulfilled')
      expect(second).toMatchObject({ reason: expect.any(TransactionConflictError) as unknown })
      expect(await subject.claimedKeys()).toEqual([names[0]])
    })
  }

  const { incrementByModel } = libraryUnderTest!
  if (incrementByModel !== undefined) {
    test('I5 run retries a deadlock that the models of the library report', () =>
      expectDeadlockToBeRetried(target, root, incrementByModel))
  }

  test("I4 with 'report' a delivery that finds another in flight says so, and its transaction stays usable", async () => {
    const subject = new InboxUnderTest(target, root, { inFlight: 'report' })
    const winner = await root.begin()
    await subject.inbox.process(winner.tx, { id: 'x' }, subject.handle)
    const other = await root.begin()
    const outcome = await subject.inbox.process(other.tx, { id: 'x' }, subject.handle)
    expect(outcome).toEqual({ status: 'in-flight', key: 'x' })
    await target.effect(other.tx, subject.consumer)
    await other.commit()
    await winner.commit()
    expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'duplicate' })
    expect([subject.calls, await subject.effects()]).toEqual([1, 2])
  })
}

/** What one call of txbox costs, in a transaction of the caller. */
function roundTrips(target: Target, kind: HandleKind): void {
  test('a claim, a duplicate, a message and a batch of any size cost the documented round trips', async () => {
    const { proxy, through: root } = await rootThroughProxy(target, kind)
    const subject = new InboxUnderTest(target, root)
    const outbox = createOutbox({ database: root.database, notify: false })
    await subject.process({ id: 'known' })
    const transaction = await root.begin()
    const { tx } = transaction
    const count = async (call: () => Promise<unknown>): Promise<number> => {
      proxy.countFromHere()
      await call()
      return proxy.roundTrips
    }
    const process = (id: string): Promise<number> =>
      count(() => subject.inbox.process(tx, { id }, () => undefined))
    const publish = (): Promise<number> =>
      count(() => outbox.publish(tx, { id: randomUUID(), topic: 't', payload: {} }))
    const batch = (size: number): Promise<number> => {
      const messages = Array.from({ length: size }, () => ({ id: randomUUID() }))
      return count(() => subject.inbox.processBatch(tx, messages, () => undefined))
    }
    // A driver may prepare a statement when it first runs.
    await publish()
    await batch(1)
    const counted = {
      fresh: [await process('a'), await process('b')],
      duplicate: [await process('a'), await process('known')],
      publish: [await publish(), await publish()],
      batch: [await batch(1), await batch(300)],
    }
    await transaction.rollback()
    const { fresh, duplicate, publish: published, batch: batched } = costsOf(target, kind)
    expect(counted).toEqual({
      fresh: [fresh, fresh],
      duplicate: [duplicate, duplicate],
      publish: [published, published],
      batch: [batched, batched],
    })
  })
}

function costsOf(
  target: Target,
  kind: HandleKind,
): Record<'fresh' | 'duplicate' | 'publish' | 'batch', number> {
  const { perCall, perWrite = 0, afterHandler } = kind.extraRoundTrips ?? { perCall: 0, afterHandler: 0 }
  // Only the answer of a driver shows that all claims of a batch are new.
  const { freshBatch, mixedBatch } = target.costs
  const batch = kind.driver === 'hidden' && target.engine !== 'postgres' ? mixedBatch : freshBatch
  return {
    fresh: target.costs.fresh + perCall + perWrite + afterHandler,
    duplicate: target.costs.duplicate + perCall,
    publish: 1 + perCall + perWrite,
    batch: batch + perCall + perWrite + afterHandler,
  }
}
