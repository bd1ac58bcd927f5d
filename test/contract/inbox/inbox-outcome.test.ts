import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  InvalidMessageError,
  PermanentError,
  RetryLaterError,
  businessKey,
  isTxboxError,
  type TransactionHandle,
} from '@txbox/core'
import { isSettled, type DuplicateEvent, type InboxContext } from '@txbox/inbox'
import { InboxUnderTest, WAYS, type Message } from '../../support/subjects/inbox-under-test.ts'
import { onEachKind, onEachKindAtUsualIsolation, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()

onEachKindAtUsualIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation })

  test('the transactions under test have the isolation level that the title says', async () => {
    const transaction = await root.begin()
    const level = await target.isolationOf(transaction)
    await transaction.rollback()
    expect(level).toBe(isolation)
  })

  for (const way of WAYS) {
    test(`I1 a duplicate is a result: fn is not called, and the time of the first delivery is reported (${way})`, async () => {
      const subject = new InboxUnderTest(target, root)
      const message = { id: randomUUID() }
      const before = await target.now()
      const first = await subject.deliver(way, message)
      const after = await target.now()
      const second = await subject.deliver(way, message)
      expect(first).toEqual({ status: 'processed', key: message.id, result: 'handled' })
      expect(second).toEqual({ status: 'duplicate', key: message.id, firstProcessedAt: expect.any(Date) })
      expect(subject.calls).toBe(1)
      expect([isSettled(first), isSettled(second)]).toEqual([true, true])
      const [claim] = await target.claims(subject.consumer)
      if (second.status !== 'duplicate') throw new Error('unreachable')
      expect(second.firstProcessedAt).toEqual(claim?.processedAt)
      // A Date has milliseconds, the database has microseconds: one millisecond of grace on both sides.
      expect(second.firstProcessedAt.getTime()).toBeGreaterThanOrEqual(before.getTime() - 1)
      expect(second.firstProcessedAt.getTime()).toBeLessThanOrEqual(after.getTime() + 1)
    })

    const thrown: [string, unknown][] = [
      ['an Error', new Error('from the handler')],
      ['undefined', undefined],
      ['null', null],
      ['a string', 'text'],
      ['false', false],
      ['PermanentError', new PermanentError('never')],
      ['RetryLaterError', new RetryLaterError({ retryAfterMs: 5000 })],
      ['InvalidMessageError', new InvalidMessageError('mine')],
      ['an object like an error', { code: 'X', message: 'no instance of Error' }],
      ['an error whose properties cannot be read', unreadable()],
    ]
    test.for(thrown)(
      `I2 fn throws %s: the caller gets exactly this value, and nothing is stored (${way})`,
      async ([, value]) => {
        const subject = new InboxUnderTest(target, root)
        const message = { id: randomUUID() }
        const rejection = await subject
          .deliver(way, message, async (tx) => {
            subject.calls += 1
            await target.effect(tx, subject.consumer)
            throw value
          })
          .then(
            (outcome) => ({ outcome }),
            (error: unknown) => ({ error }),
          )
        expect(rejection).toEqual({ error: value })
        expect(Reflect.get(rejection, 'error')).toBe(value)
        expect(subject.calls).toBe(1)
        expect([await subject.effects(), await subject.claimedKeys()]).toEqual([0, []])
        expect(await subject.deliver(way, message)).toMatchObject({ status: 'processed' })
        expect(await subject.effects()).toBe(1)
      },
    )

    test(`I2 fn throws before it awaits anything: nothing is stored (${way})`, async () => {
      const subject = new InboxUnderTest(target, root)
      const error = new Error('at once')
      await expect(
        subject.deliver(way, { id: 'x' }, () => {
          throw error
        }),
      ).rejects.toBe(error)
      expect(await subject.claimedKeys()).toEqual([])
    })
  }

  test('I2 the caller can roll back the claim after process has returned', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    expect(await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)).toMatchObject({
      status: 'processed',
    })
    await transaction.rollback()
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([0, []])
    expect(await subject.process({ id: 'x' })).toMatchObject({ status: 'processed' })
    expect(await subject.effects()).toBe(1)
  })

  test('I2 other transactions see nothing before the caller commits', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([0, []])
    await transaction.commit()
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([1, ['x']])
  })

  test('I8 the same key twice in one transaction: the second is a duplicate', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    const first = await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    const second = await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    const other = await subject.inbox.process(transaction.tx, { id: 'y' }, subject.handle)
    await transaction.commit()
    expect([first.status, second.status, other.status]).toEqual(['processed', 'duplicate', 'processed'])
    expect(await subject.effects()).toBe(2)
  })

  test('I8 a delivery inside the handler of the same message is a duplicate', async () => {
    const subject = new InboxUnderTest(target, root)
    const outcome = await subject.process({ id: 'x' }, (tx) =>
      subject.inbox.process(tx, { id: 'x' }, subject.handle),
    )
    expect(outcome).toMatchObject({ status: 'processed', result: { status: 'duplicate' } })
    expect(subject.calls).toBe(0)
  })

  test('I8 rolling back to a savepoint taken before the claim makes the key new again', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    await transaction.savepoint('before_claim')
    await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    await transaction.rollbackTo('before_claim')
    const again = await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    await transaction.savepoint('after_claim')
    await target.effect(transaction.tx, subject.consumer)
    await transaction.rollbackTo('after_claim')
    const third = await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    await transaction.commit()
    expect([again.status, third.status]).toEqual(['processed', 'duplicate'])
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([1, ['x']])
  })
})

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  describe.each(WAYS)('%s', (way) => {
    test('I11 onDuplicate is called once per duplicate, with the record of the first delivery', async () => {
      const events: DuplicateEvent<Message>[] = []
      const subject = new InboxUnderTest(target, root, { onDuplicate: (event) => void events.push(event) })
      await subject.deliver(way, { id: 'x', correlationId: 'first' })
      expect(events).toEqual([])
      const message = { id: 'x', correlationId: 'second', payload: { n: 1 } }
      const outcome = await subject.deliver(way, message)
      const [claim] = await target.claims(subject.consumer)
      expect(outcome.status).toBe('duplicate')
      expect(events).toEqual([
        {
          consumer: subject.consumer,
          key: 'x',
          message,
          firstProcessedAt: claim?.processedAt,
          firstCorrelationId: 'first',
        },
      ])
      expect(events[0]?.message).toBe(message)
      await subject.deliver(way, message)
      expect(events.length).toBe(2)
    })

    const listeners: [string, (event: unknown) => void][] = [
      [
        'throws',
        () => {
          throw new Error('from the listener')
        },
      ],
      [
        'throws undefined',
        () => {
          throw undefined
        },
      ],
      // Declared as returning nothing, so a user may well pass an async function.
      [
        'rejects',
        async () => {
          throw new Error('from the async listener')
        },
      ],
    ]
    test.for(listeners)('I11 an onDuplicate that %s changes no outcome', async ([, onDuplicate]) => {
      const subject = new InboxUnderTest(target, root, { onDuplicate })
      await subject.deliver(way, { id: 'x' })
      expect(await subject.deliver(way, { id: 'x' })).toMatchObject({ status: 'duplicate', key: 'x' })
      expect(await subject.deliver(way, { id: 'y' })).toMatchObject({ status: 'processed' })
      expect(await subject.effects()).toBe(2)
    })

    test('I12 idempotencyKey is the same for every delivery of one message to one consumer', async () => {
      const subject = new InboxUnderTest(target, root)
      const keys: string[] = []
      for (const id of ['x', 'x', 'y', 'x']) {
        await subject
          .deliver(
            way,
            { id, correlationId: randomUUID(), headers: { nonce: randomUUID() } },
            (_tx, _message, context) => {
              keys.push(context.idempotencyKey)
              throw new Error('so that it is delivered again')
            },
          )
          .catch(() => undefined)
      }
      const [x1, x2, y, x3] = keys
      expect([x2, x3]).toEqual([x1, x1])
      expect(y).not.toBe(x1)
    })
  })

  test('I12 idempotencyKey is the same in process and run, and differs for another consumer', async () => {
    const message = { id: randomUUID() }
    const contexts: InboxContext[] = []
    const fn = (_tx: TransactionHandle, _message: Message, context: InboxContext): void => {
      contexts.push(context)
      throw new Error('so that it is delivered again')
    }
    const billing = new InboxUnderTest(target, root)
    const shipping = new InboxUnderTest(target, root)
    await billing.process(message, fn).catch(() => undefined)
    await billing.inbox.run(message, fn).catch(() => undefined)
    await shipping.process(message, fn).catch(() => undefined)
    const [byProcess, byRun, elsewhere] = contexts
    expect(byProcess?.idempotencyKey).toMatch(/\S{16,}/)
    expect(byRun?.idempotencyKey).toBe(byProcess?.idempotencyKey)
    expect(elsewhere?.idempotencyKey).not.toBe(byProcess?.idempotencyKey)
    // A handler may pass on a copy.
    expect({ ...byProcess }).toHaveProperty('idempotencyKey', byProcess?.idempotencyKey)
  })

  test('the handler is called with the transaction, the message and the context', async () => {
    const subject = new InboxUnderTest(target, root, { key: businessKey((m: Message) => [m.id, 'charge']) })
    const message = { id: 'm', payload: { n: 1 } }
    const transaction = await root.begin()
    const outcome = await subject.inbox.process(transaction.tx, message, (tx, given, context) => ({
      tx,
      given,
      context,
    }))
    await transaction.commit()
    if (outcome.status !== 'processed') throw new Error(outcome.status)
    expect(outcome.result.tx).toBe(transaction.tx)
    expect(outcome.result.given).toBe(message)
    expect(outcome.result.context).toMatchObject({
      consumer: subject.consumer,
      key: '["m","charge"]',
      attempt: 1,
    })
    expect(outcome.result.context.signal).toBeInstanceOf(AbortSignal)
    expect(outcome.result.context.signal.aborted).toBe(false)
  })

  test('a result that fn returns without a promise, or undefined, is a result', async () => {
    const subject = new InboxUnderTest(target, root)
    expect(await subject.process({ id: 'a' }, () => 7)).toEqual({ status: 'processed', key: 'a', result: 7 })
    expect(await subject.process({ id: 'b' }, () => undefined)).toMatchObject({
      status: 'processed',
      result: undefined,
    })
  })

  test('run passes its signal to the handler, and does not begin if the signal is already aborted', async () => {
    const subject = new InboxUnderTest(target, root)
    const { signal } = new AbortController()
    let seen: AbortSignal | undefined
    await subject.inbox.run({ id: 'x' }, (_tx, _message, context) => void (seen = context.signal), { signal })
    expect(seen?.aborted).toBe(false)
    const reason = new Error('shutting down')
    await expect(
      subject.inbox.run({ id: 'y' }, subject.handle, { signal: AbortSignal.abort(reason) }),
    ).rejects.toBe(reason)
    expect([subject.calls, await subject.claimedKeys()]).toEqual([0, ['x']])
  })

  test('the errors by which a handler controls redelivery are errors of txbox, and run retries neither', async () => {
    const subject = new InboxUnderTest(target, root)
    for (const error of [new PermanentError('no'), new RetryLaterError({ retryAfterMs: 1 })]) {
      const attempts: number[] = []
      await expect(
        subject.inbox.run({ id: 'x' }, (_tx, _message, context) => {
          attempts.push(context.attempt)
          throw error
        }),
      ).rejects.toBe(error)
      expect(attempts).toEqual([1])
      expect(isTxboxError(error)).toBe(true)
    }
  })
})

/** An error whose properties must not be read. */
function unreadable(): Error {
  const error = new Error('from the handler')
  for (const name of ['code', 'errno', 'message', 'name', 'cause', 'sqlState', 'retryable']) {
    Object.defineProperty(error, name, {
      get() {
        throw new Error(`The property '${name}' was read.`)
      },
    })
  }
  return error
}
