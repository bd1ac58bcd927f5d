import { expect, test } from 'vitest'
import { InvalidMessageError, LIMITS } from '@txbox/core'
import { InboxUnderTest, WAYS } from '../../support/subjects/inbox-under-test.ts'
import { onEachKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const STORE = { storeResult: true } as const

onEachKind(target, (kind) => {
  const root = useRoot(target, kind, { max: 4 })

  test.each(['commit and chain', 'rollback and chain'])(
    'I7 the result of a handler that replaces its transaction by another one (%s) is not stored, also if the caller commits',
    async (statement) => {
      const subject = new InboxUnderTest(target, root, STORE)
      const transaction = await root.begin()
      const delivered = subject.inbox.process(transaction.tx, { id: 'x' }, async (tx) => {
        await target.exec(tx, statement)
        return 'of no transaction'
      })
      await expect(delivered).rejects.toMatchObject({
        code: expect.stringMatching(/TXBOX_(TRANSACTION_ABORTED|NOT_IN_TRANSACTION)/) as unknown,
      })
      await transaction.commit()
      const outcome = await subject.process({ id: 'x' }, () => 'another')
      expect(outcome.status).toBe(statement === 'commit and chain' ? 'duplicate' : 'processed')
      expect(Reflect.get(outcome, 'result')).toBe(statement === 'commit and chain' ? undefined : 'another')
    },
  )

  for (const way of WAYS) {
    test(`a duplicate gets the first delivery's result as it is after JSON (${way})`, async () => {
      const subject = new InboxUnderTest(target, root, STORE)
      const result = {
        text: 'Grüße 🎉 \0 "quoted" \\ \u2028 \ud800',
        at: new Date(Date.UTC(2026, 0, 31)),
        list: [1, null, undefined, { deep: true }],
        gone: undefined,
      }
      expect(await subject.deliver(way, { id: 'x' }, () => result)).toMatchObject({
        status: 'processed',
        result,
      })
      const expected = JSON.parse(JSON.stringify(result)) as unknown
      for (let again = 0; again < 2; again++) {
        const outcome = await subject.deliver(way, { id: 'x' }, () => 'another')
        expect(outcome).toMatchObject({ status: 'duplicate', result: expected })
      }
    })

    for (const result of [null, false, 0, '', 'text', [], {}]) {
      test(`the result ${JSON.stringify(result)} is stored (${way})`, async () => {
        const subject = new InboxUnderTest(target, root, STORE)
        await subject.deliver(way, { id: 'x' }, () => result)
        const outcome = await subject.deliver(way, { id: 'x' }, () => 'another')
        expect(outcome).toMatchObject({ status: 'duplicate' })
        expect(Reflect.get(outcome, 'result')).toEqual(result)
      })
    }

    test(`a handler without a result leaves none (${way})`, async () => {
      const subject = new InboxUnderTest(target, root, STORE)
      await subject.deliver(way, { id: 'x' }, () => undefined)
      expect(await subject.deliver(way, { id: 'x' })).not.toHaveProperty('result')
    })

    test(`a result of 1 MiB is stored, and one of a byte more is refused and rolled back (${way})`, async () => {
      const subject = new InboxUnderTest(target, root, STORE)
      // Two bytes for each letter, and two for the quotes.
      const largest = 'ä'.repeat(LIMITS.resultBytes / 2 - 1)
      await subject.deliver(way, { id: 'x' }, () => largest)
      expect(await subject.deliver(way, { id: 'x' })).toMatchObject({ status: 'duplicate', result: largest })
      const tooLarge = subject.deliver(way, { id: 'y' }, () => `${largest}b`)
      await expect(tooLarge).rejects.toThrow(InvalidMessageError)
      await expect(tooLarge).rejects.toThrow(/1048577 bytes.*at most 1048576/s)
      expect(await subject.claimedKeys()).toEqual(['x'])
    })

    test(`a result that has no form in JSON is refused and rolled back (${way})`, async () => {
      const subject = new InboxUnderTest(target, root, STORE)
      const circular: Record<string, unknown> = {}
      circular['self'] = circular
      for (const result of [1n, circular, new Map([['a', 1]]), new Set([1]), new Error('x')]) {
        await expect(subject.deliver(way, { id: 'x' }, () => result)).rejects.toThrow(InvalidMessageError)
      }
      expect(await subject.claimedKeys()).toEqual([])
    })
  }

  test('without storeResult nothing is stored, and a duplicate has no result', async () => {
    const consumer = new InboxUnderTest(target, root).consumer
    const plain = new InboxUnderTest(target, root, { consumer })
    await plain.process({ id: 'x' }, () => 'first')
    const storing = new InboxUnderTest(target, root, { ...STORE, consumer })
    expect(await storing.process({ id: 'x' })).not.toHaveProperty('result')
    await storing.process({ id: 'y' }, () => 'second')
    expect(await plain.process({ id: 'y' })).not.toHaveProperty('result')
  })

  test('the result of an expired claim is forgotten', async () => {
    const subject = new InboxUnderTest(target, root, STORE)
    await subject.process({ id: 'x' }, () => 'old')
    await target.expire(subject.consumer)
    await subject.process({ id: 'x' }, () => undefined)
    expect(await subject.process({ id: 'x' })).not.toHaveProperty('result')
  })

  test('a rollback removes the result, and a nested delivery of the same message finds no result yet', async () => {
    const subject = new InboxUnderTest(target, root, STORE)
    const transaction = await root.begin()
    await subject.inbox.process(transaction.tx, { id: 'x' }, async (tx) => {
      const nested = await subject.inbox.process(tx, { id: 'x' }, () => 'inner')
      expect(nested).toMatchObject({ status: 'duplicate' })
      expect(nested).not.toHaveProperty('result')
      return 'outer'
    })
    expect(await subject.inbox.process(transaction.tx, { id: 'x' }, () => 'inner')).toMatchObject({
      result: 'outer',
    })
    await transaction.rollback()
    expect(await subject.process({ id: 'x' }, () => 'again')).toMatchObject({ result: 'again' })
  })

  test('forget within the handler removes the claim, so that its result cannot be stored', async () => {
    const subject = new InboxUnderTest(target, root, STORE)
    const forgetful = subject.process({ id: 'x' }, async (tx, message) => {
      await subject.inbox.forget(tx, message)
      return 'result'
    })
    await expect(forgetful).rejects.toMatchObject({ code: 'TXBOX_TRANSACTION_ABORTED' })
    expect(await subject.claimedKeys()).toEqual([])
  })

  test('a stored result that was altered is an InvalidMessageError that names the key', async () => {
    const subject = new InboxUnderTest(target, root, STORE)
    await subject.process({ id: 'x' }, () => 'good')
    const table = target.engine === 'postgres' ? 'txbox.inbox' : 'txbox_inbox'
    await target.sql(`update ${table} set result = '{broken' where consumer = ?`, [subject.consumer])
    await expect(subject.process({ id: 'x' })).rejects.toThrow(InvalidMessageError)
    await expect(subject.process({ id: 'x' })).rejects.toThrow(/key 'x' is not JSON/)
  })
})
