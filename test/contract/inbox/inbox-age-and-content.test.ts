import { expect, test, vi } from 'vitest'
import { InvalidMessageError } from '@txbox/core'
import { createInbox, days, hours, isSettled } from '@txbox/inbox'
import { InboxUnderTest, WAYS, type Message } from '../../support/subjects/inbox-under-test.ts'
import { onEachKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()

onEachKind(target, (kind) => {
  const root = useRoot(target, kind, { max: 4 })
  const ago = (ms: number): Date => new Date(Date.now() - ms)

  for (const way of WAYS) {
    test(`a message that is older than maxAgeMs is too old: no handler, no claim (${way})`, async () => {
      const subject = new InboxUnderTest(target, root, { maxAgeMs: hours(1) })
      for (const time of [
        ago(hours(1) + 1000),
        ago(hours(2)).toISOString(),
        '2020-01-01T00:00:00.123456+01:00',
      ]) {
        const outcome = await subject.deliver(way, { id: 'x', time })
        expect(outcome).toEqual({ status: 'too-old', key: 'x' })
        expect(isSettled(outcome)).toBe(true)
      }
      expect([subject.calls, await subject.claimedKeys()]).toEqual([0, []])
      for (const [id, time] of [ago(hours(1) - 60_000), ago(-hours(1)), ago(0).toISOString()].entries()) {
        expect(await subject.deliver(way, { id: `young-${id}`, time })).toMatchObject({ status: 'processed' })
      }
    })

    test(`with maxAgeMs a message without a time is refused (${way})`, async () => {
      const subject = new InboxUnderTest(target, root, { maxAgeMs: hours(1) })
      const times = [undefined, null, 'yesterday', '2026-01-31', '2026-01-31T10:00:00', new Date(NaN), 7, {}]
      for (const time of times) {
        const message = { id: 'x', time } as Message
        await expect(subject.deliver(way, message)).rejects.toThrow(InvalidMessageError)
      }
      await expect(subject.deliver(way, { id: 'x' })).rejects.toThrow(/'x' has no usable time/)
      expect(await subject.claimedKeys()).toEqual([])
    })

    test(`onMismatch 'error' refuses other content under the same key, and no other (${way})`, async () => {
      const subject = new InboxUnderTest(target, root, { onMismatch: 'error' })
      await subject.deliver(way, { id: 'x', payload: { amount: 1, to: 'Ada' } })
      const same = { id: 'x', payload: { to: 'Ada', amount: 1.0 }, headers: { attempt: '2' } }
      expect(await subject.deliver(way, same)).toMatchObject({ status: 'duplicate' })
      for (const payload of [{ amount: 2, to: 'Ada' }, { amount: 1 }, null, undefined, Buffer.from('x')]) {
        const other = subject.deliver(way, { id: 'x', payload })
        await expect(other).rejects.toThrow(InvalidMessageError)
        await expect(other).rejects.toThrow(/key 'x' has another payload/)
      }
      expect([subject.calls, await subject.effects()]).toEqual([1, 1])
    })
  }

  test("onMismatch 'error' compares bytes as bytes", async () => {
    const subject = new InboxUnderTest(target, root, { onMismatch: 'error' })
    await subject.process({ id: 'x', payload: Buffer.from([0, 255]) })
    expect(await subject.process({ id: 'x', payload: new Uint8Array([0, 255]) })).toMatchObject({
      status: 'duplicate',
    })
    await expect(subject.process({ id: 'x', payload: Buffer.from([0, 254]) })).rejects.toThrow(
      InvalidMessageError,
    )
  })

  test("onMismatch 'error' in batches: across batches, and within one", async () => {
    const subject = new InboxUnderTest(target, root, { onMismatch: 'error' })
    const batch = async (...messages: Message[]): Promise<readonly string[]> => {
      const transaction = await root.begin()
      try {
        const { outcomes } = await subject.inbox.processBatch(transaction.tx, messages, () =>
          Promise.resolve(),
        )
        await transaction.commit()
        return outcomes.map(({ status }) => status)
      } catch (error) {
        await transaction.rollback()
        throw error
      }
    }
    const [a, b] = [
      { id: 'a', payload: 1 },
      { id: 'b', payload: 2 },
    ]
    expect(await batch(a, b, a)).toEqual(['processed', 'processed', 'duplicate'])
    expect(await batch(b, a)).toEqual(['duplicate', 'duplicate'])
    await expect(batch({ id: 'c', payload: 3 }, { id: 'a', payload: 4 })).rejects.toThrow(InvalidMessageError)
    await expect(batch({ id: 'd', payload: 3 }, { id: 'd', payload: 4 })).rejects.toThrow(InvalidMessageError)
    expect(await subject.claimedKeys()).toEqual(['a', 'b'])
    // An expired claim that a batch takes over has the hash of the new content.
    await target.expire(subject.consumer)
    expect(await batch({ id: 'a', payload: 5 }, b)).toEqual(['processed', 'processed'])
    expect(await batch({ id: 'a', payload: 5 }, b)).toEqual(['duplicate', 'duplicate'])
    await expect(batch(b, a)).rejects.toThrow(InvalidMessageError)
  })

  test("onMismatch 'error': a claim without a hash matches every payload, and an expired one is forgotten", async () => {
    const consumer = new InboxUnderTest(target, root).consumer
    const plain = new InboxUnderTest(target, root, { consumer })
    const strict = new InboxUnderTest(target, root, { consumer, onMismatch: 'error' })
    await plain.process({ id: 'x', payload: 1 })
    expect(await strict.process({ id: 'x', payload: 2 })).toMatchObject({ status: 'duplicate' })
    await strict.process({ id: 'y', payload: 1 })
    expect(await plain.process({ id: 'y', payload: 2 })).toMatchObject({ status: 'duplicate' })
    await target.expire(consumer)
    expect(await strict.process({ id: 'y', payload: 2 })).toMatchObject({ status: 'processed' })
    await expect(strict.process({ id: 'y', payload: 1 })).rejects.toThrow(InvalidMessageError)
  })
})

test('redeliveryHorizonMs and maxAgeMs beyond the retention are one process warning each at creation', () => {
  const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined)
  try {
    const create = (options: object): unknown =>
      createInbox({ database: target.detached(), consumer: 'c', ...options })
    create({ redeliveryHorizonMs: days(7), maxAgeMs: days(7) })
    create({ redeliveryHorizonMs: days(20), retentionMs: days(30), maxAgeMs: days(1) })
    expect(emitWarning).not.toHaveBeenCalled()
    create({ redeliveryHorizonMs: days(8) })
    expect(emitWarning).toHaveBeenCalledExactlyOnceWith(
      expect.stringMatching(/consumer 'c' forgets a message after 7 d \(.*redeliveries after 8 d \(/),
      { type: 'TxboxWarning', code: 'TXBOX_SHORT_RETENTION' },
    )
    create({ maxAgeMs: days(8) })
    expect(emitWarning).toHaveBeenCalledTimes(2)
  } finally {
    emitWarning.mockRestore()
  }
})
