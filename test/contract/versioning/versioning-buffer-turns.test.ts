import { ReentrantCallError, createVersionBuffer, type VersionBufferOutcome } from '@txbox/versioning'
import { TransactionConflictError, type TransactionHandle } from '@txbox/core'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { onEachKindAndIsolation, useRoot, useTarget } from '../../support/engines/target.ts'
import {
  VersionBufferUnderTest,
  steps,
  type Payload,
} from '../../support/subjects/version-buffer-under-test.ts'
import { failureOf } from '../../support/subjects/versioned-tables.ts'

const target = useTarget()
const LENGTH = 8

/** Chains of two keys, each message once or twice, in any order, in transactions of any size. */
const transactions = fc
  .tuple(
    ...['a', 'b'].flatMap((key) =>
      Array.from({ length: LENGTH }, (_, from) =>
        fc.record({ key: fc.constant(key), from: fc.constant(from), copies: fc.integer({ min: 1, max: 2 }) }),
      ),
    ),
  )
  .chain((messages) => {
    const copies = messages.flatMap((message) => Array<typeof message>(message.copies).fill(message))
    return fc.record({
      shuffled: fc.shuffledSubarray(copies, { minLength: copies.length }),
      size: fc.integer({ min: 2, max: 12 }),
    })
  })

onEachKindAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation, max: 4 })

  /** Calls side by side on one transaction. */
  const together = async (
    subject: VersionBufferUnderTest,
    messages: readonly { readonly key: string; readonly from: number }[],
  ): Promise<VersionBufferOutcome[]> => {
    const transaction = await root.begin()
    const outcomes = await Promise.all(
      messages.map(({ key, from }) =>
        subject.buffer.process(transaction.tx, { key, from, to: from + 1, payload: { n: from } }),
      ),
    )
    await transaction.commit()
    return outcomes
  }

  test('V7 a message that is delivered twice, side by side in one transaction, is applied once', async () => {
    const subject = new VersionBufferUnderTest(target, root)
    const message = { key: 'k', from: 0 }
    const outcomes = await together(subject, [message, message])
    expect(outcomes.map(({ status }) => status)).toEqual(['applied', 'stale'])
    expect(await subject.applied('k')).toEqual(['0-1'])
  })

  test('V7 a message and its predecessor, side by side in one transaction, are both applied', async () => {
    const subject = new VersionBufferUnderTest(target, root)
    const outcomes = await together(
      subject,
      [3, 1, 0, 2].map((from) => ({ key: 'k', from })),
    )
    expect(outcomes).toEqual([
      { status: 'waiting', version: 0 },
      { status: 'waiting', version: 0 },
      { status: 'applied', version: 2, followed: 1 },
      { status: 'applied', version: 4, followed: 1 },
    ])
    expect(await subject.applied('k')).toEqual(steps(0, 4))
    expect(await subject.stored()).toBe(0)
    // The count of waiting messages is correct afterwards, too.
    expect(await subject.deliver('k', 5)).toMatchObject({ status: 'waiting' })
    expect(await subject.deliver('k', 4)).toMatchObject({ status: 'applied', followed: 1 })
  })

  test('V7 after any calls side by side in one transaction, each change is applied once, in order, and no message is left waiting', async () => {
    const property = fc.asyncProperty(transactions, async ({ shuffled, size }) => {
      const subject = new VersionBufferUnderTest(target, root)
      for (let at = 0; at < shuffled.length; at += size)
        await together(subject, shuffled.slice(at, at + size))
      for (const key of ['a', 'b']) expect(await subject.applied(key)).toEqual(steps(0, LENGTH))
      expect(await subject.stored()).toBe(0)
      expect(await subject.positions()).toEqual({ a: [LENGTH, 0], b: [LENGTH, 0] })
    })
    await fc.assert(property, { numRuns: 6, endOnFailure: true })
  })

  test('V7 two buffers of one consumer take turns', async () => {
    const subject = new VersionBufferUnderTest(target, root)
    const twin = createVersionBuffer<TransactionHandle, Payload>({
      database: root.database,
      consumer: subject.consumer,
      apply: (tx, message) => subject.effect(tx, message),
    })
    const transaction = await root.begin()
    const calls = [3, 2, 1, 0].map((from, n) =>
      (n % 2 === 0 ? twin : subject.buffer).process(transaction.tx, {
        key: 'k',
        from,
        to: from + 1,
        payload: { n: from },
      }),
    )
    expect((await Promise.all(calls)).at(-1)).toEqual({ status: 'applied', version: 4, followed: 3 })
    await transaction.commit()
    expect(await subject.applied('k')).toEqual(steps(0, 4))
  })

  test('V7 a call from inside apply for the same key is refused, and nothing waits forever', async () => {
    const refused: unknown[] = []
    const subject = new VersionBufferUnderTest(target, root, {
      apply: async (tx, message) => {
        const { key, to } = message
        const next = { key, from: to, to: to + 1, payload: { n: to } }
        if (to === 1) {
          refused.push(await failureOf(subject.buffer.process(tx, next)))
          refused.push(await failureOf(subject.buffer.resync(key, 5)))
          refused.push(await failureOf(subject.buffer.discard(key, 5)))
        }
        await subject.effect(tx, message)
      },
    })
    expect(await subject.deliver('k', 0)).toEqual({ status: 'applied', version: 1, followed: 0 })
    expect(refused.length).toBe(3)
    for (const error of refused) {
      expect(error).toBeInstanceOf(ReentrantCallError)
      expect(error).toMatchObject({ code: 'TXBOX_REENTRANT_CALL', retryable: false })
    }
    expect(await subject.deliver('k', 1)).toMatchObject({ status: 'applied' })
    expect(await subject.applied('k')).toEqual(steps(0, 2))
  })

  test('V7 a refused call that leaves apply rolls the delivery back', async () => {
    const subject: VersionBufferUnderTest = new VersionBufferUnderTest(target, root, {
      apply: async (tx, message) => {
        await subject.effect(tx, message)
        await subject.buffer.process(tx, message)
      },
    })
    expect(await failureOf(subject.deliver('k', 0))).toBeInstanceOf(ReentrantCallError)
    expect(await subject.applied('k')).toEqual([])
    expect(await subject.positions()).toEqual({})
  })

  test('V7 calls from inside apply for other keys are applied in the same transaction, also where two keys call each other', async () => {
    const failures: unknown[] = []
    const subject: VersionBufferUnderTest = new VersionBufferUnderTest(target, root, {
      apply: async (tx, message) => {
        await subject.effect(tx, message)
        const { key, from, to, payload } = message
        const others = key === 'a' ? ['b', 'c'] : key === 'b' ? ['a', 'c'] : []
        const calls = others.map((other) => subject.buffer.process(tx, { key: other, from, to, payload }))
        for (const settled of await Promise.allSettled(calls)) {
          if (settled.status === 'rejected') failures.push(settled.reason)
        }
      },
    })
    const outcomes = await together(subject, [
      { key: 'a', from: 0 },
      { key: 'b', from: 0 },
    ])
    expect(outcomes.map(({ status }) => status)).toEqual(['applied', 'stale'])
    // b, which a has called, calls a again.
    expect(failures.map((error) => error instanceof ReentrantCallError)).toEqual([true])
    for (const key of ['a', 'b', 'c']) expect(await subject.applied(key)).toEqual(['0-1'])
    expect(await subject.positions()).toEqual({ a: [1, 0], b: [1, 0], c: [1, 0] })
  })

  test('V7 a call that apply does not await ends before the next one begins', async () => {
    let unawaited: Promise<VersionBufferOutcome> | undefined
    const subject: VersionBufferUnderTest = new VersionBufferUnderTest(target, root, {
      apply: async (tx, message) => {
        if (message.key === 'a') unawaited = subject.buffer.process(tx, { ...message, key: 'b' })
        await subject.effect(tx, message)
      },
    })
    const outcomes = await together(subject, [
      { key: 'a', from: 0 },
      { key: 'b', from: 0 },
    ])
    expect(outcomes.map(({ status }) => status)).toEqual(['applied', 'stale'])
    expect(await unawaited).toMatchObject({ status: 'applied' })
    expect(await subject.applied('b')).toEqual(['0-1'])
  })

  test('V7 a call that waits for its turn when the transaction ends writes nothing', async () => {
    const subject = new VersionBufferUnderTest(target, root, {
      apply: async (tx, message) => {
        if (message.from === 0) throw new Error('of apply')
        await subject.effect(tx, message)
      },
    })
    const transaction = await root.begin()
    const calls = [0, 2, 1].map((from) =>
      subject.buffer.process(transaction.tx, { key: `k${from}`, from, to: from + 1, payload: { n: from } }),
    )
    const settled = Promise.allSettled(calls)
    await expect(Promise.all(calls)).rejects.toThrow('of apply')
    await transaction.rollback()
    await settled
    expect(await subject.stored()).toBe(0)
    expect(await subject.positions()).toEqual({})
  })

  test('V7 a chain that changes unnoticed during a call fails the delivery, and is not overwritten', async () => {
    const table = target.engine === 'postgres' ? 'txbox.versions' : 'txbox_versions'
    const subject: VersionBufferUnderTest = new VersionBufferUnderTest(target, root, {
      apply: async (tx, message) => {
        await subject.effect(tx, message)
        const values = target.engine === 'postgres' ? subject.consumer : Buffer.from(subject.consumer)
        await target.exec(tx, `update ${table} set version = 7 where consumer = ?`, [values])
      },
    })
    expect(await failureOf(subject.deliver('k', 0))).toBeInstanceOf(TransactionConflictError)
    expect(await subject.applied('k')).toEqual([])
  })
})
