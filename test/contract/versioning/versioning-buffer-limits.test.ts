import { InvalidOptionError } from '@txbox/core'
import { expect, test } from 'vitest'
import { onEachKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { failureOf } from '../../support/subjects/versioned-tables.ts'
import { VersionBufferUnderTest, steps } from '../../support/subjects/version-buffer-under-test.ts'

const target = useTarget()

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  test('V2 if too many messages wait, the last of the chain become dead letters, which are reported and listed, never lost', async () => {
    const subject = new VersionBufferUnderTest(target, root, { maxWaiting: 2 })
    await subject.deliver('k', 1)
    await subject.deliver('k', 3)
    // The message comes earlier in the chain than the last one, which is removed to make room.
    expect(await subject.deliver('k', 2)).toEqual({ status: 'waiting', version: 0 })
    expect(await subject.deliver('k', 4)).toEqual({ status: 'dead-lettered', version: 0 })
    expect(await subject.deliver('k', 4)).toEqual({ status: 'dead-lettered', version: 0 })
    expect(subject.deadLetters.map(({ message, reason }) => [message.from, reason])).toEqual([
      [3, 'too-many'],
      [4, 'too-many'],
    ])
    // Another key has a separate limit.
    expect(await subject.deliver('other', 9)).toMatchObject({ status: 'waiting' })
    expect(await subject.deliver('k', 0)).toEqual({ status: 'applied', version: 3, followed: 2 })

    const listed = await subject.buffer.deadLetters()
    expect(listed).toMatchObject([
      {
        consumer: subject.consumer,
        reason: 'too-many',
        message: { key: 'k', from: 3, to: 4, payload: { n: 4 } },
      },
      { reason: 'too-many', message: { key: 'k', from: 4 } },
    ])
    const now = (await target.now()).getTime()
    for (const { receivedAt, deadAt } of listed) {
      expect(Math.abs(now - receivedAt.getTime())).toBeLessThan(20_000)
      expect(Math.abs(now - deadAt.getTime())).toBeLessThan(20_000)
    }
    expect(await subject.buffer.redrive('k', 4)).toEqual({ status: 'waiting', version: 3 })
    expect(await subject.buffer.redrive('k', 3)).toEqual({ status: 'applied', version: 5, followed: 1 })
    expect(await subject.buffer.redrive('k', 3)).toBeUndefined()
    expect(await subject.buffer.deadLetters()).toEqual([])
    expect(await subject.applied('k')).toEqual(steps(0, 5))
  })

  test('V2 the lowest and the highest version are looked up like any other', async () => {
    const lowest = -(2n ** 63n)
    const subject = new VersionBufferUnderTest(target, root, { maxWaiting: 1 })
    await subject.deliver('k', 1)
    await subject.deliver('k', 2)
    expect(await subject.buffer.redrive('k', lowest as never)).toBeUndefined()
    expect(await subject.buffer.discard('k', lowest as never)).toBe(false)
    const after = (from: bigint): Promise<readonly object[]> =>
      subject.buffer.deadLetters({ after: { key: 'k', from: from as never } })
    expect(await after(lowest)).toHaveLength(1)
    expect(await after(2n ** 63n - 1n)).toEqual([])
    await expect(after(2n ** 64n - 1n)).rejects.toThrow(InvalidOptionError)
  })

  test('V2 a message that waited too long becomes a dead letter, by a delivery of its key or by a sweep', async () => {
    const subject = new VersionBufferUnderTest(target, root, { maxAgeMs: 60_000 })
    await subject.deliver('k', 1)
    await subject.deliver('other', 1)
    expect(await subject.buffer.sweep()).toEqual({ deadLettered: 0 })
    await subject.age(120_000)
    expect(await subject.deliver('k', 5)).toEqual({ status: 'waiting', version: 0 })
    expect(subject.deadLetters.map(({ message, reason }) => [message.key, message.from, reason])).toEqual([
      ['k', 1, 'too-old'],
    ])
    expect(await subject.buffer.sweep()).toEqual({ deadLettered: 1 })
    expect(await subject.buffer.sweep()).toEqual({ deadLettered: 0 })
    expect(subject.deadLetters).toHaveLength(2)
    expect(await subject.buffer.deadLetters({ key: 'other' })).toMatchObject([
      { reason: 'too-old', message: { key: 'other', from: 1 } },
    ])
    // A dead letter does not block waiting messages.
    expect(await subject.deliver('other', 0)).toEqual({ status: 'applied', version: 1, followed: 0 })
    expect(await subject.buffer.discard('other', 1)).toBe(true)
    expect(await subject.buffer.discard('other', 1)).toBe(false)
    expect(await subject.buffer.deadLetters({ key: 'other' })).toEqual([])
  })

  test('V2 a late predecessor is followed by the messages that waited for it, however old they are', async () => {
    const subject = new VersionBufferUnderTest(target, root, { maxAgeMs: 60_000 })
    await subject.deliver('k', 1)
    await subject.age(120_000)
    expect(await subject.deliver('k', 0)).toEqual({ status: 'applied', version: 2, followed: 1 })
    expect(subject.deadLetters).toEqual([])
  })

  test('V2 resync sets the version of a key: older messages are stale, and waiting messages follow', async () => {
    const subject = new VersionBufferUnderTest(target, root)
    for (const from of [2, 5, 6, 9]) await subject.deliver('k', from)
    await subject.deliver('k', 3, 8)
    expect(await subject.buffer.resync('k', 5)).toEqual({ version: 7, followed: 2 })
    expect(await subject.applied('k')).toEqual(['5-6', '6-7'])
    // The change starts inside the resynchronized range, so its effect is unknown.
    expect(subject.deadLetters.map(({ message, reason }) => [message.from, message.to, reason])).toEqual([
      [3, 8, 'diverged'],
    ])
    for (const from of [0, 2, 4, 6]) {
      expect(await subject.deliver('k', from)).toEqual({ status: 'stale', version: 7 })
    }
    expect(await subject.deliver('k', 7, 9)).toEqual({ status: 'applied', version: 10, followed: 1 })
    // A new key begins at that version.
    expect(await subject.buffer.resync('new', 57)).toEqual({ version: 57, followed: 0 })
    expect(await subject.deliver('new', 56)).toEqual({ status: 'stale', version: 57 })
    expect(await subject.deliver('new', 57)).toEqual({ status: 'applied', version: 58, followed: 0 })
    expect(await failureOf(subject.buffer.resync('', 1))).toBeInstanceOf(InvalidOptionError)
    expect(await failureOf(subject.buffer.resync('k', 1.5))).toBeInstanceOf(InvalidOptionError)
  })

  test('V2 dead letters are listed in pages, and a listener that throws changes nothing', async () => {
    const subject = new VersionBufferUnderTest(target, root, {
      maxWaiting: 1,
      onDeadLetter: () => {
        throw new Error('a listener')
      },
    })
    for (const from of [1, 4, 3, 2]) await subject.deliver('a', from)
    for (const from of [1, 2]) await subject.deliver('b', from)
    const first = await subject.buffer.deadLetters({ limit: 2 })
    expect(first.map(({ message }) => [message.key, message.from])).toEqual([
      ['a', 2],
      ['a', 3],
    ])
    const { key, from } = first.at(-1)!.message
    const rest = await subject.buffer.deadLetters({ after: { key, from } })
    expect(rest.map(({ message }) => [message.key, message.from])).toEqual([
      ['a', 4],
      ['b', 2],
    ])
  })

  test('V2 a long waiting chain is applied as a whole', async () => {
    const subject = new VersionBufferUnderTest(target, root)
    const transaction = await root.begin()
    for (let from = 60; from >= 1; from--) {
      await subject.buffer.process(transaction.tx, { key: 'k', from, to: from + 1, payload: { n: from } })
    }
    await transaction.commit()
    expect(await subject.deliver('k', 0)).toEqual({ status: 'applied', version: 61, followed: 60 })
    expect(await subject.applied('k')).toEqual(steps(0, 61))
    expect(await subject.stored()).toBe(0)
  })
})
