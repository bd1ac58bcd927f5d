import { TransactionConflictError } from '@txbox/core'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { onEachKindAtUsualIsolation, useRoot, useTarget } from '../../support/engines/target.ts'
import { VersionBufferUnderTest, steps } from '../../support/subjects/version-buffer-under-test.ts'

const target = useTarget()
const KEYS = ['a', 'b', 'c']
const LENGTH = 8
const WORKERS = 6

/** Every message of every chain once or twice, in any order. */
const deliveries = fc
  .tuple(
    ...KEYS.flatMap((key) =>
      Array.from({ length: LENGTH }, (_, from) =>
        fc.record({ key: fc.constant(key), from: fc.constant(from), copies: fc.integer({ min: 1, max: 2 }) }),
      ),
    ),
  )
  .chain((messages) => {
    const copies = messages.flatMap((message) => Array<typeof message>(message.copies).fill(message))
    return fc.shuffledSubarray(copies, { minLength: copies.length })
  })

onEachKindAtUsualIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation, max: WORKERS })

  test('V1 V2 concurrent deliveries in any order, with duplicates: each chain is applied once, in order, and nothing stays behind', async () => {
    const property = fc.asyncProperty(deliveries, async (shuffled) => {
      const subject = new VersionBufferUnderTest(target, root)
      const queue = [...shuffled]
      const worker = async (): Promise<void> => {
        for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
          await subject.deliverUntilSettled(next.key, next.from)
        }
      }
      await Promise.all(Array.from({ length: WORKERS }, worker))
      for (const key of KEYS) expect(await subject.applied(key)).toEqual(steps(0, LENGTH))
      expect(await subject.stored()).toBe(0)
    })
    await fc.assert(property, { numRuns: 3, endOnFailure: true })
  })

  test('V2 a delivery whose snapshot is older than a stored message does not leave that message behind', async () => {
    const subject = new VersionBufferUnderTest(target, root)
    for (const from of [0, 2]) {
      const older = await root.begin()
      await older.exec('select count(*) as n from effects')
      expect(await subject.deliver('k', from + 1)).toMatchObject({ status: 'waiting' })
      const message = { key: 'k', from, to: from + 1, payload: { n: from } }
      const conflict = await subject.buffer.process(older.tx, message).then(
        () => older.commit(),
        (error: unknown) => older.rollback().then(() => error),
      )
      if (conflict !== undefined) {
        expect(conflict).toBeInstanceOf(TransactionConflictError)
        await subject.deliver('k', from)
      }
      expect(await subject.applied('k')).toEqual(steps(0, from + 2))
      expect(await subject.stored()).toBe(0)
    }
  })

  test('V2 a predecessor and its successor at the same moment: the successor is never left waiting', async () => {
    const subject = new VersionBufferUnderTest(target, root)
    for (let from = 0; from < 24; from += 2) {
      await Promise.all([subject.deliverUntilSettled('k', from), subject.deliverUntilSettled('k', from + 1)])
    }
    expect(await subject.applied('k')).toEqual(steps(0, 24))
    expect(await subject.stored()).toBe(0)
  })
})
