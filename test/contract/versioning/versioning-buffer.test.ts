import { createVersionBuffer, type VersionedMessage } from '@txbox/versioning'
import {
  InvalidMessageError,
  InvalidOptionError,
  NotInTransactionError,
  type TransactionHandle,
} from '@txbox/core'
import { expect, test } from 'vitest'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { mainKind, onEachKindAtUsualIsolation, useRoot, useTarget } from '../../support/engines/target.ts'
import { failureOf } from '../../support/subjects/versioned-tables.ts'
import {
  VersionBufferUnderTest,
  steps,
  type Payload,
} from '../../support/subjects/version-buffer-under-test.ts'

const target = useTarget()

onEachKindAtUsualIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation })

  test('V2 a message without its predecessor is stored once, and follows when the predecessor has arrived', async () => {
    const subject = new VersionBufferUnderTest(target, root)
    expect(await subject.deliver('k', 2)).toEqual({ status: 'waiting', version: 0 })
    expect(await subject.deliver('k', 1)).toEqual({ status: 'waiting', version: 0 })
    expect(await subject.deliver('k', 2)).toEqual({ status: 'waiting', version: 0 })
    expect(await subject.stored()).toBe(2)
    expect(await subject.deliver('k', 5)).toEqual({ status: 'waiting', version: 0 })
    expect(await subject.applied('k')).toEqual([])

    expect(await subject.deliver('k', 0)).toEqual({ status: 'applied', version: 3, followed: 2 })
    expect(await subject.applied('k')).toEqual(steps(0, 3))
    expect(await subject.stored()).toBe(1)
    for (const from of [0, 1, 2]) {
      expect(await subject.deliver('k', from)).toEqual({ status: 'stale', version: 3 })
    }
    expect(await subject.deliver('k', 3)).toEqual({ status: 'applied', version: 4, followed: 0 })
    expect(await subject.deliver('k', 4)).toEqual({ status: 'applied', version: 6, followed: 1 })
    expect(await subject.applied('k')).toEqual(steps(0, 6))
    expect(await subject.stored()).toBe(0)
  })

  test('V3 versions may jump; each key of each consumer has its own version', async () => {
    const subject = new VersionBufferUnderTest(target, root)
    const other = new VersionBufferUnderTest(target, root)
    expect(await subject.deliver('k', 7, 9)).toMatchObject({ status: 'waiting' })
    expect(await subject.deliver('K', 0, 7)).toEqual({ status: 'applied', version: 7, followed: 0 })
    expect(await other.deliver('k', 0, 7)).toEqual({ status: 'applied', version: 7, followed: 0 })
    expect(await subject.deliver('k', 0, 7)).toEqual({ status: 'applied', version: 9, followed: 1 })
    expect(await subject.applied('k')).toEqual(['0-7', '7-9'])
  })

  test('V2 a message that starts inside an applied change, or forks a chain, is diverged', async () => {
    const subject = new VersionBufferUnderTest(target, root)
    await subject.deliver('k', 0, 5)
    expect(await failureOf(subject.deliver('k', 3, 7))).toMatchObject({
      code: 'TXBOX_VERSION_DIVERGED',
      from: 3,
      to: 7,
      actual: 5,
    })
    await subject.deliver('k', 8, 9)
    expect(await failureOf(subject.deliver('k', 8, 10))).toMatchObject({ code: 'TXBOX_VERSION_DIVERGED' })
    // A waiting message whose version was passed by another message does not block the others.
    await subject.deliver('k', 6, 8)
    expect(await subject.deliver('k', 5, 7)).toEqual({ status: 'applied', version: 7, followed: 0 })
    expect(subject.deadLetters).toEqual([
      {
        consumer: subject.consumer,
        reason: 'diverged',
        message: { key: 'k', from: 6, to: 8, payload: { n: 8 } },
      },
    ])
    expect(await subject.deliver('k', 7, 8)).toEqual({ status: 'applied', version: 9, followed: 1 })
  })

  test('V2 I2 an error of apply rolls the whole delivery back, and the next delivery starts from the beginning', async () => {
    const broken = new Error('broken')
    let fails = true
    const subject: VersionBufferUnderTest = new VersionBufferUnderTest(target, root, {
      apply: async (tx: TransactionHandle, message: VersionedMessage<Payload>) => {
        await subject.effect(tx, message)
        if (fails && message.from === 1) throw broken
      },
    })
    await subject.deliver('k', 1)
    expect(await failureOf(subject.deliver('k', 0))).toBe(broken)
    expect(await subject.applied('k')).toEqual([])
    expect(await subject.stored()).toBe(1)
    fails = false
    expect(await subject.deliver('k', 0)).toEqual({ status: 'applied', version: 2, followed: 1 })
    expect(await subject.applied('k')).toEqual(steps(0, 2))
  })

  test('V2 I1 inside an inbox: once, in order, and acknowledged while it waits', async () => {
    const inbox = new InboxUnderTest(target, root)
    const subject = new VersionBufferUnderTest(target, root)
    const deliver = (from: number) =>
      inbox.deliver('process', { id: `m${from}` }, (tx) =>
        subject.buffer.process(tx, { key: 'k', from, to: from + 1, payload: { n: from } }),
      )
    expect(await deliver(1)).toMatchObject({ status: 'processed', result: { status: 'waiting' } })
    expect(await deliver(1)).toMatchObject({ status: 'duplicate' })
    expect(await deliver(0)).toMatchObject({ result: { status: 'applied', version: 2, followed: 1 } })
    expect(await subject.applied('k')).toEqual(steps(0, 2))
  })

  test('V2 a payload is the same whether it waited or not, and versions keep their type', async () => {
    const seen: unknown[] = []
    const buffer = createVersionBuffer<TransactionHandle, unknown, bigint | string>({
      database: root.database,
      consumer: `kinds-${isolation}-${kind.name}`,
      apply: (_tx, message) => void seen.push(message),
      firstVersion: 2n ** 53n,
    })
    const payload = { text: 'ä\u0000"\\ 😀', list: [1, null, 0.1], at: new Date(0), gone: undefined }
    const given = (from: bigint | string, to: bigint | string) => ({ key: 'ключ', from, to, payload })
    const transaction = await root.begin()
    const one = 2n ** 53n + 1n
    await buffer.process(transaction.tx, given(one, one + 1n))
    const text = given(String(one + 1n), String(one + 2n))
    await buffer.process(transaction.tx, text)
    expect(await buffer.process(transaction.tx, given(one - 1n, one))).toEqual({
      status: 'applied',
      version: one + 2n,
      followed: 2,
    })
    await transaction.commit()
    const asJson = { text: payload.text, list: payload.list, at: '1970-01-01T00:00:00.000Z' }
    expect(seen).toEqual([
      { ...given(one - 1n, one), payload: asJson },
      { ...given(one, one + 1n), payload: asJson },
      { ...text, payload: asJson },
    ])
  })
})

test('V3 an invalid message, option or transaction is refused', async () => {
  const root = target.open(mainKind(target))
  try {
    const subject = new VersionBufferUnderTest(target, root)
    const transaction = await root.begin()
    const fine = { key: 'k', from: 0, to: 1, payload: { n: 1 } }
    for (const wrong of [
      undefined,
      { ...fine, key: '' },
      { ...fine, key: 'x'.repeat(256) },
      { ...fine, to: 0 },
      { ...fine, from: 0.5 },
      { ...fine, to: 1n },
      { ...fine, payload: undefined },
      { ...fine, payload: 1n },
      { ...fine, from: 0n, to: 2n ** 63n },
    ]) {
      const call = subject.buffer.process(transaction.tx, wrong as never)
      expect(await failureOf(call)).toBeInstanceOf(InvalidMessageError)
    }
    await transaction.rollback()
    expect(await subject.stored()).toBe(0)
    expect(await failureOf(subject.buffer.process(root.db as never, fine))).toBeInstanceOf(
      NotInTransactionError,
    )

    const options = { database: root.database, consumer: 'c', apply: () => undefined }
    for (const wrong of [
      { ...options, database: target.detached() },
      { ...options, apply: undefined },
      { ...options, consumer: '' },
      { ...options, maxWaiting: 0 },
      { ...options, maxAgeMs: 0 },
      { ...options, maxWait: 3 },
    ]) {
      expect(() => createVersionBuffer(wrong as never)).toThrow(InvalidOptionError)
    }
  } finally {
    await root.close()
  }
})
