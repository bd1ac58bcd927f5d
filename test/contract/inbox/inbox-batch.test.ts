import { crc32 } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { InvalidMessageError, LIMITS, TransactionConflictError, type TransactionHandle } from '@txbox/core'
import type { DuplicateEvent, InboxContext } from '@txbox/inbox'
import { InboxUnderTest, type Message } from '../../support/subjects/inbox-under-test.ts'
import { rootThroughProxy } from '../../support/engines/root-through-proxy.ts'
import {
  onEachKind,
  onEachKindAndIsolation,
  useRoot,
  useTarget,
  type Root,
  type ExtraRoundTrips,
} from '../../support/engines/target.ts'

const target = useTarget()
const NO_EXTRA: ExtraRoundTrips = { perCall: 0, afterHandler: 0 }

/** Processes a batch as a consumer does: one effect per new message, in a new transaction. */
async function processBatch(subject: InboxUnderTest, root: Root, ids: readonly string[]): Promise<Batch> {
  const transaction = await root.begin()
  try {
    const fresh: string[] = []
    const { outcomes, result } = await subject.inbox.processBatch(
      transaction.tx,
      messages(ids),
      async (tx, news) => {
        for (const message of news) {
          fresh.push(message.id)
          await target.effect(tx, `${subject.consumer}/${encodeURIComponent(message.id)}`)
        }
        return `${news.length} fresh`
      },
    )
    await transaction.commit()
    return {
      statuses: outcomes.map((outcome) => outcome.status),
      keys: outcomes.map((outcome) => outcome.key),
      fresh,
      result,
    }
  } catch (error) {
    await transaction.rollback()
    throw error
  }
}

interface Batch {
  readonly statuses: readonly string[]
  readonly keys: readonly string[]
  readonly fresh: readonly string[]
  readonly result: string | undefined
}

onEachKindAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation, max: 8 })

  test('I13 a batch gives one outcome per message, in the order of the messages', async () => {
    const subject = new InboxUnderTest(target, root)
    await subject.process({ id: 'c' })
    const batch = await processBatch(subject, root, ['e', 'c', 'a', 'e', 'd', 'a'])
    expect(batch).toEqual({
      statuses: ['processed', 'duplicate', 'processed', 'duplicate', 'processed', 'duplicate'],
      keys: ['e', 'c', 'a', 'e', 'd', 'a'],
      fresh: ['e', 'a', 'd'],
      result: '3 fresh',
    })
    expect(await subject.claimedKeys()).toEqual(['a', 'c', 'd', 'e'])
    const again = await processBatch(subject, root, ['d', 'f', 'a'])
    expect([again.statuses, again.fresh]).toEqual([['duplicate', 'processed', 'duplicate'], ['f']])
  })

  test('I13 fn is called once with the new messages and their contexts, and not at all if there are none', async () => {
    const subject = new InboxUnderTest(target, root)
    const calls: { tx: TransactionHandle; fresh: readonly Message[]; contexts: readonly InboxContext[] }[] =
      []
    const fn = (
      tx: TransactionHandle,
      fresh: readonly Message[],
      contexts: readonly InboxContext[],
    ): number => calls.push({ tx, fresh, contexts })
    const batch = messages(['b', 'a', 'b'])
    const transaction = await root.begin()
    const first = await subject.inbox.processBatch(transaction.tx, batch, fn)
    const second = await subject.inbox.processBatch(transaction.tx, batch, fn)
    const none = await subject.inbox.processBatch(transaction.tx, [], fn)
    await transaction.commit()
    expect(calls.length).toBe(1)
    expect(calls[0]?.tx).toBe(transaction.tx)
    expect(calls[0]?.fresh).toEqual([batch[0], batch[1]])
    expect(calls[0]?.fresh[0]).toBe(batch[0])
    expect(calls[0]?.contexts.map(({ key, consumer, attempt }) => [key, consumer, attempt])).toEqual([
      ['b', subject.consumer, 1],
      ['a', subject.consumer, 1],
    ])
    expect(first.result).toBe(1)
    expect([second.outcomes.length, second.result]).toEqual([3, undefined])
    expect([none.outcomes, none.result]).toEqual([[], undefined])
  })

  test('I13 a duplicate in a batch has the time of the first delivery, even if that is in the same batch', async () => {
    const events: DuplicateEvent<Message>[] = []
    const subject = new InboxUnderTest(target, root, { onDuplicate: (event) => void events.push(event) })
    await subject.process({ id: 'old', correlationId: 'first' })
    const transaction = await root.begin()
    const batch = messages(['old', 'new', 'new'])
    const { outcomes } = await subject.inbox.processBatch(transaction.tx, batch, () => undefined)
    await transaction.commit()
    const [created, old] = await target.claims(subject.consumer)
    expect(outcomes).toEqual([
      { status: 'duplicate', key: 'old', firstProcessedAt: old?.processedAt },
      { status: 'processed', key: 'new', result: undefined },
      { status: 'duplicate', key: 'new', firstProcessedAt: created?.processedAt },
    ])
    expect(events.map((event) => [event.key, event.message === batch[0], event.firstCorrelationId])).toEqual([
      ['old', true, 'first'],
      ['new', false, undefined],
    ])
  })

  test('I2 a batch and its claims roll back together', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    const error = new Error('from the handler')
    const delivered = subject.inbox.processBatch(transaction.tx, messages(['a', 'b']), async (tx) => {
      await target.effect(tx, subject.consumer)
      throw error
    })
    await expect(delivered).rejects.toBe(error)
    await transaction.rollback()
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([0, []])
  })

  test('K5 a message without a key in a batch is refused before anything is written', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    const delivered = subject.inbox.processBatch(
      transaction.tx,
      messages(['a', '', 'b']),
      () => void (subject.calls += 1),
    )
    await expect(delivered).rejects.toThrow(InvalidMessageError)
    await transaction.commit()
    expect([subject.calls, await subject.claimedKeys()]).toEqual([0, []])
  })

  test('I13 a batch waits for the winners of its keys, and takes over from winners that roll back', async () => {
    const subject = new InboxUnderTest(target, root)
    const [committing, failing] = [await root.begin(), await root.begin()]
    await subject.inbox.process(committing.tx, { id: 'a' }, () => undefined)
    await subject.inbox.process(failing.tx, { id: 'c' }, () => undefined)
    const waiting = untilSettled(() => processBatch(subject, root, ['c', 'b', 'a']))
    await target.blocked(1)
    await committing.commit()
    await target.blocked(1)
    await failing.rollback()
    expect((await waiting).statuses).toEqual(['processed', 'processed', 'duplicate'])
    expect(await subject.claimedKeys()).toEqual(['a', 'b', 'c'])
  })

  test('I13 batches that share keys in different orders do not deadlock, and each key takes effect once', async () => {
    const subject = new InboxUnderTest(target, root)
    const ids = Array.from({ length: 200 }, (_, n) => `m${n}`)
    // Some are expired, so that all three ways of a claim are in each batch: new, taken over, duplicate.
    const expired = ids.filter((_, n) => n % 3 === 0)
    await processBatch(subject, root, expired)
    await target.expire(subject.consumer)
    // Small and large batches, because the database may plan them differently; each has its own order,
    // which is the same in every run.
    const batches = Array.from({ length: 24 }, (_, n) => {
      const size = [5, 40, 200][n % 3] ?? 0
      return ids.toSorted((a, b) => crc32(`${n}${a}`) - crc32(`${n}${b}`)).slice(0, size)
    })
    const settled = await Promise.all(
      batches.map((batch) => untilSettled(() => processBatch(subject, root, batch))),
    )
    expect(settled.flatMap((batch) => batch.fresh).toSorted()).toEqual(ids.toSorted())
    for (const id of ids) {
      const times = expired.includes(id) ? 2 : 1
      expect(await target.effects(`${subject.consumer}/${id}`), id).toBe(times)
    }
  })

  test.for([40, 200, 2000])(
    'I13 a small batch and a batch of %d do not deadlock, although the database may plan them differently',
    async (size) => {
      const subject = new InboxUnderTest(target, root)
      await subject.process({ id: 'a expired' })
      await target.expire(subject.consumer)
      const fillers = Array.from({ length: size }, (_, n) => `m${n}`)
      // The small batch stops at its last key, in the middle of its work; both batches contain its first two keys.
      const holder = await root.begin()
      await subject.inbox.process(holder.tx, { id: 'z held' }, () => undefined)
      const small = untilSettled(() => claimBatch(subject, ['a expired', 'n new', 'z held']))
      await target.blocked(1)
      const large = untilSettled(() => claimBatch(subject, ['a expired', ...fillers, 'n new']))
      const both = Promise.all([small, large])
      await target.blocked(2)
      await holder.rollback()
      expect((await both).flat().toSorted()).toEqual(['a expired', ...fillers, 'n new', 'z held'].toSorted())
    },
  )

  /** Claims and does nothing. @returns the ids that were new */
  async function claimBatch(subject: InboxUnderTest, ids: readonly string[]): Promise<string[]> {
    const transaction = await root.begin()
    try {
      const { result } = await subject.inbox.processBatch(transaction.tx, messages(ids), (_tx, fresh) =>
        fresh.map((message) => message.id),
      )
      await transaction.commit()
      return result ?? []
    } catch (error) {
      await transaction.rollback()
      throw error
    }
  }

  /** Redelivers as long as the database reports conflicts. Deadlocks are errors: sorted batches cannot have one. */
  async function untilSettled<T>(deliver: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await deliver()
      } catch (error) {
        if (!(error instanceof TransactionConflictError) || target.isDeadlock(error.cause)) throw error
        expect(target.waitersMustRetry(isolation)).toBe(true)
      }
    }
  }
})

onEachKind(target, (kind) => {
  test('I13 the number of round trips does not depend on the size of the batch', async () => {
    const { proxy, through: root } = await rootThroughProxy(target, kind)
    const subject = new InboxUnderTest(target, root)
    await processBatch(subject, root, ['warm up'])
    const measured: Record<string, number[]> = {}
    for (const size of [1, 10, 1000]) {
      const ids = Array.from({ length: size }, (_, n) => `${size}-${n}`)
      const half = ids.map((id, n) => (n % 2 === 0 ? id : `half-${id}`))
      const transaction = await root.begin()
      const count = async (what: string, batch: readonly string[]): Promise<void> => {
        proxy.countFromHere()
        await subject.inbox.processBatch(transaction.tx, messages(batch), () => undefined)
        ;(measured[what] ??= []).push(proxy.roundTrips)
      }
      await count('all new', ids)
      await count('all duplicates', ids)
      await count('half of them new', half)
      await transaction.commit()
    }
    const { perCall, perWrite = 0, afterHandler } = kind.extraRoundTrips ?? NO_EXTRA
    // Only the answer of a driver shows that all claims of a batch are new.
    const { freshBatch: seen, mixedBatch: read } = target.costs
    const freshBatch =
      (kind.driver === 'hidden' && target.engine !== 'postgres' ? read : seen) +
      perCall +
      perWrite +
      afterHandler
    const mixedBatch = target.costs.mixedBatch + perCall + perWrite
    expect(measured).toEqual({
      'all new': Array(3).fill(freshBatch),
      'all duplicates': Array(3).fill(mixedBatch),
      // Half of the batches with one message have no new message, so that no handler is called.
      'half of them new': [mixedBatch, mixedBatch + afterHandler, mixedBatch + afterHandler],
    })
  })

  test('I13 the largest possible batch, with the longest keys and correlation ids, is claimed like any other', async () => {
    const root = target.open(kind)
    await root.ready?.()
    onTestFinished(() => root.close())
    const subject = new InboxUnderTest(target, root)
    const batch = Array.from({ length: LIMITS.batchMessages }, (_, n) => ({
      id: `${n} ${'ü'.repeat((LIMITS.storedKeyBytes - 6) / 2)}`,
      correlationId: '€'.repeat(LIMITS.correlationIdCharacters),
    }))
    const fresh = async (messages: readonly Message[]): Promise<number> => {
      const transaction = await root.begin()
      const { outcomes } = await subject.inbox.processBatch(transaction.tx, messages, () => undefined)
      await transaction.commit()
      return outcomes.filter(({ status }) => status === 'processed').length
    }
    expect(await fresh(batch.slice(1))).toBe(batch.length - 1)
    expect(await fresh(batch)).toBe(1)
  })

  test('K2 K3 K4 a batch claims the same keys as single deliveries do', async () => {
    const root = target.open(kind)
    await root.ready?.()
    onTestFinished(() => root.close())
    const subject = new InboxUnderTest(target, root)
    const ids = [
      'A1',
      'a1',
      'á1',
      'A1 ',
      'x'.repeat(600) + '1',
      'x'.repeat(600) + '2',
      'a\0b',
      '["a","b"]',
      "it's",
      'a,b',
      '{a}',
      'NULL',
      'a"b',
    ]
    const batch = await processBatch(subject, root, ids)
    expect(batch.fresh).toEqual(ids)
    expect(batch.keys).toEqual(ids)
    for (const id of ids)
      expect(await subject.process({ id }), id).toMatchObject({ status: 'duplicate', key: id })
  })

  test('I12 idempotencyKey in a batch is the same as for a single delivery', async () => {
    const root = target.open(kind)
    await root.ready?.()
    onTestFinished(() => root.close())
    const subject = new InboxUnderTest(target, root)
    const keys: string[] = []
    const transaction = await root.begin()
    await subject.inbox.processBatch(
      transaction.tx,
      messages(['x', 'y']),
      (_tx, _fresh, contexts) => void keys.push(...contexts.map((context) => context.idempotencyKey)),
    )
    await transaction.rollback()
    for (const id of ['x', 'y']) {
      await subject.process({ id }, (_tx, _message, context) => void keys.push(context.idempotencyKey))
    }
    expect(keys.slice(2)).toEqual(keys.slice(0, 2))
    expect(keys[0]).not.toBe(keys[1])
  })
})

function messages(ids: readonly string[]): Message[] {
  return ids.map((id) => ({ id }))
}
