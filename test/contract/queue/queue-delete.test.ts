import { expect, test } from 'vitest'
import {
  InvalidOptionError,
  NotInTransactionError,
  ReceiptExpiredError,
  TransactionConflictError,
} from '@txbox/core'
import { QueueUnderTest, idsOf } from '../../support/subjects/queue-under-test.ts'
import { onEachKindAndIsolation, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()

onEachKindAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation })

  for (const key of [undefined, 'a']) {
    const having = key === undefined ? 'without a key' : 'with a key'
    const sent = key === undefined ? {} : { key }

    test(`Q7 delete with tx commits with the work: ${having}`, async () => {
      const subject = new QueueUnderTest(target, root)
      const effect = `effect ${subject.queue.name}`
      await subject.send(sent)
      const received = await subject.receiveOne()
      const work = await root.begin()
      await subject.queue.delete(received, { tx: work.tx })
      await target.effect(work.tx, effect)
      await work.commit()
      expect([await target.effects(effect), await subject.size()]).toEqual([1, 0])
      await subject.expire()
      expect(await subject.receive()).toEqual([])
    })

    test(`Q7 delete with tx rolls back with the work, and the receipt stays valid: ${having}`, async () => {
      const subject = new QueueUnderTest(target, root)
      const [id] = await subject.send(sent)
      const received = await subject.receiveOne()
      for (let n = 0; n < 2; n += 1) {
        const work = await root.begin()
        await subject.queue.delete(received, { tx: work.tx })
        await work.rollback()
        expect(await subject.receive()).toEqual([])
      }
      await subject.expire()
      expect(await subject.receive()).toMatchObject([{ message: { id }, receives: 2 }])
    })

    test(`Q7 a savepoint takes the delete back: ${having}`, async () => {
      const subject = new QueueUnderTest(target, root)
      const [id] = await subject.send(sent)
      const received = await subject.receiveOne()
      const work = await root.begin()
      await work.savepoint('here')
      await subject.queue.delete(received, { tx: work.tx })
      await work.rollbackTo('here')
      await work.commit()
      await subject.expire()
      expect(idsOf(await subject.receive())).toEqual([id])
    })

    test(`Q7 of two transactions with one receipt, the second waits, is then refused, and runs nothing: ${having}`, async () => {
      const subject = new QueueUnderTest(target, root)
      await subject.send(sent)
      const received = await subject.receiveOne()
      const [first, second] = [await root.begin(), await root.begin()]
      await subject.queue.delete(received, { tx: first.tx })
      const refused = subject.queue
        .delete({ receipt: received.receipt }, { tx: second.tx })
        .catch((error: unknown) => error)
      await target.blocked(1)
      await first.commit()
      const error = await refused
      // Its snapshot is older than the first one's commit: a retry gets the answer.
      if (isolation !== 'read committed') expect(error).toSatisfy(isRefusalOrConflict)
      else expect(error).toBeInstanceOf(ReceiptExpiredError)
      await second.rollback()
      const third = await root.begin()
      await expect(subject.queue.delete(received, { tx: third.tx })).rejects.toThrow(ReceiptExpiredError)
      await third.rollback()
      expect(await subject.size()).toBe(0)
    })

    test(`Q7 of two transactions with one receipt, the second goes on when the first rolls back: ${having}`, async () => {
      const subject = new QueueUnderTest(target, root)
      await subject.send(sent)
      const received = await subject.receiveOne()
      const [first, second] = [await root.begin(), await root.begin()]
      await subject.queue.delete(received, { tx: first.tx })
      const waiting = subject.queue.delete(received, { tx: second.tx })
      await target.blocked(1)
      await first.rollback()
      await waiting
      await second.commit()
      expect(await subject.size()).toBe(0)
    })

    test(`Q8 while the transaction is open no receiver gets the message, even after its timeout: ${having}`, async () => {
      const subject = new QueueUnderTest(target, root)
      const [id] = await subject.send(sent, sent)
      const received = await subject.receive({ limit: 1000 })
      const held = received.find(({ message }) => message.id === id)!
      for (const each of received) if (each !== held) await subject.queue.delete(each)
      // Shorter than the shortest timeout of a receive, and long enough for the deletion on a busy machine.
      await subject.queue.changeVisibility(held, 600)
      const timeout = new Date((await target.now()).getTime() + 600)
      const work = await root.begin()
      await subject.queue.delete(held, { tx: work.tx })
      await target.past(timeout)
      expect(await subject.receive({ limit: 1000, waitMs: 100 })).toEqual([])
      await work.rollback()
      expect(await subject.receive()).toMatchObject([{ message: { id }, receives: 2 }])
    })
  }

  test('Q7 several messages are deleted in one transaction', async () => {
    const subject = new QueueUnderTest(target, root)
    await subject.send({ key: 'a' }, { key: 'b' }, {}, {}, { key: 'b' })
    const received = await subject.receive()
    expect(received).toHaveLength(4)
    const work = await root.begin()
    for (const each of received) await subject.queue.delete(each, { tx: work.tx })
    await work.commit()
    expect(await subject.size()).toBe(1)
  })

  test('Q7 a value that is not an open transaction is refused, and the message is not deleted', async () => {
    const subject = new QueueUnderTest(target, root)
    await subject.send({})
    const received = await subject.receiveOne()
    await expect(subject.queue.delete(received, { tx: root.db as never })).rejects.toThrow(
      NotInTransactionError,
    )
    await expect(subject.queue.delete(received, { tx: undefined as never })).rejects.toThrow(
      InvalidOptionError,
    )
    await expect(subject.queue.delete(received, { tx: null as never })).rejects.toThrow()
    await expect(subject.queue.delete(received, { trx: 1 } as never)).rejects.toThrow(InvalidOptionError)
    expect(await subject.size()).toBe(1)
    await subject.queue.delete(received)
    expect(await subject.size()).toBe(0)
  })
})

function isRefusalOrConflict(error: unknown): boolean {
  return error instanceof ReceiptExpiredError || error instanceof TransactionConflictError
}
