import { describe, expect, test } from 'vitest'
import {
  DatabaseUnavailableError,
  InvalidMessageError,
  InvalidOptionError,
  NotInTransactionError,
  TxboxError,
  UnsupportedTransactionError,
  isTxboxError,
} from '@txbox/core'
import { createInbox, hours } from '@txbox/inbox'
import { InboxUnderTest, type Message } from '../../support/subjects/inbox-under-test.ts'
import { onEachKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()

describe('options', () => {
  const wrong: [string, Record<string, unknown>][] = [
    ['no consumer', { consumer: undefined }],
    ['an empty consumer', { consumer: '' }],
    ['a consumer of 101 characters', { consumer: 'c'.repeat(101) }],
    ['a consumer that is no text', { consumer: 7 }],
    ['a consumer with a NUL', { consumer: 'a\0b' }],
    ['no database', { database: undefined }],
    ['a database that is none', { database: {} }],
    ['a key that is no function', { key: 'id' }],
    ['a retention of 0', { retentionMs: 0 }],
    ['a negative retention', { retentionMs: -1 }],
    ['a retention that is NaN', { retentionMs: Number.NaN }],
    ['an endless retention', { retentionMs: Infinity }],
    ['a retention as text', { retentionMs: '7d' }],
    ['an onDuplicate that is no function', { onDuplicate: 'log' }],
    ['an option that does not exist', { retention: hours(1) }],
    ['an option with a typo', { retentionMS: hours(1) }],
    ['an inFlight that is neither', { inFlight: 'maybe' }],
    ['a consumer of txbox itself', { consumer: '@publish' }],
    ['a lockTimeoutMs of 0', { lockTimeoutMs: 0 }],
    ['a lockTimeoutMs of more than an hour', { lockTimeoutMs: hours(2) }],
    ['a lockTimeoutMs as text', { lockTimeoutMs: '1s' }],
    ['a maxAgeMs of 0', { maxAgeMs: 0 }],
    ['an endless maxAgeMs', { maxAgeMs: Infinity }],
    ['a redeliveryHorizonMs that is NaN', { redeliveryHorizonMs: Number.NaN }],
    ['a storeResult that is no flag', { storeResult: 'yes' }],
    ['an onMismatch that is neither', { onMismatch: 'ignore' }],
  ]
  test.for(wrong)('%s is an InvalidOptionError when the inbox is made', ([, options]) => {
    const make = (): unknown =>
      createInbox({ database: target.detached(), consumer: 'c', ...options } as never)
    expect(make).toThrow(InvalidOptionError)
    try {
      make()
    } catch (error) {
      expect(isTxboxError(error)).toBe(true)
      expect(error).toMatchObject({ code: 'TXBOX_INVALID_OPTION', retryable: false })
      // The error names the option, so that the user can find it.
      const [name] = Object.keys(options)
      expect(Reflect.get(error as object, 'message')).toContain(name)
    }
  })

  test('undefined options count as left out, and explicit defaults are accepted', () => {
    const undefinedOptions = {
      key: undefined,
      retentionMs: undefined,
      onDuplicate: undefined,
      storeResult: undefined,
    }
    createInbox({ database: target.detached(), consumer: 'c', ...undefinedOptions } as never)
    createInbox({ database: target.detached(), consumer: 'c'.repeat(100), inFlight: 'wait' })
    createInbox({ database: target.detached(), consumer: 'c', retentionMs: 1 })
  })

  test('an inbox without its own connections has no run', () => {
    const inbox = createInbox({ database: target.detached(), consumer: 'c' })
    expect(Reflect.get(inbox, 'run')).toBeUndefined()
  })

  test.for([
    [{ schema: '' }],
    [{ schema: 'x'.repeat(64) }],
    [{ schema: 7 }],
    [{ scheme: 'x' }],
    [{ db: {} }],
  ])('a database with the options %j is an InvalidOptionError', ([options]) => {
    expect(() => target.detached(options as never)).toThrow(InvalidOptionError)
  })
})

describe('transaction handles', () => {
  const unknown: [string, unknown][] = [
    ['undefined', undefined],
    ['null', null],
    ['a number', 42],
    ['text', 'tx'],
    ['an empty object', {}],
    ['a function', () => undefined],
    ['a list', []],
    ['a promise of a transaction', Promise.resolve({})],
    ['an object with a query function', { query: () => Promise.resolve({ rows: [] }) }],
  ]
  test.for(unknown)('%s is an UnsupportedTransactionError', async ([, handle]) => {
    const inbox = createInbox({ database: target.detached(), consumer: `unknown-${Math.random()}` })
    let called = false
    for (const call of callsWith(inbox as never, handle, () => (called = true))) {
      const error = await call().then(
        () => undefined,
        (reason: unknown) => reason,
      )
      expect(error).toBeInstanceOf(UnsupportedTransactionError)
      expect(error).toMatchObject({ code: 'TXBOX_UNSUPPORTED_TRANSACTION', retryable: false })
    }
    expect([called, await target.claims(inbox.consumer)]).toEqual([false, []])
  })

  test('the error of a transaction of an unknown library names what was seen, and both ways to use the library', async () => {
    class Ledger {
      readonly password = 'hunter2'
      runStatement(): void {}
    }
    const inbox = createInbox({ database: target.detached(), consumer: 'unknown' })
    const error = await inbox.process(new Ledger() as never, { id: 'm' }, () => undefined).catch(String)
    for (const part of ['Ledger', 'runStatement', 'password', 'sqlTransaction', 'defineLibrary']) {
      expect(error).toContain(part)
    }
    expect(error).not.toContain('hunter2')
  })

  test.for(target.strayHandles)('%s is a NotInTransactionError, and nothing is written', async (name) => {
    const inbox = createInbox({ database: target.detached(), consumer: `stray-${Math.random()}` })
    let called = false
    await target.withStrayHandle(name, async (handle) => {
      for (const call of callsWith(inbox as never, handle, () => (called = true))) {
        const error = await call().then(
          () => undefined,
          (reason: unknown) => reason,
        )
        expect(error).toBeInstanceOf(NotInTransactionError)
        expect(error).toMatchObject({ code: 'TXBOX_NOT_IN_TRANSACTION', retryable: false })
      }
    })
    expect([called, await target.claims(inbox.consumer)]).toEqual([false, []])
  })
})

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  test.for([[undefined], [null], ['text'], [7]])(
    'a message that is %s is an InvalidMessageError',
    async ([message]) => {
      const subject = new InboxUnderTest(target, root)
      await expect(subject.process(message as never)).rejects.toThrow(InvalidMessageError)
      await expect(subject.inbox.run(message as never, subject.handle)).rejects.toThrow(InvalidMessageError)
      expect([subject.calls, await subject.claimedKeys()]).toEqual([0, []])
    },
  )

  test('a correlation id that cannot be stored is refused before anything is written', async () => {
    const subject = new InboxUnderTest(target, root)
    for (const correlationId of ['c'.repeat(256), 'a\0b', 'a\ud800', 7]) {
      const message = { id: 'x', correlationId } as Message
      await expect(subject.process(message)).rejects.toThrow(InvalidMessageError)
      await expect(subject.inbox.run(message, subject.handle)).rejects.toThrow(InvalidMessageError)
    }
    expect([subject.calls, await subject.claimedKeys()]).toEqual([0, []])
    expect(await subject.process({ id: 'x', correlationId: 'c'.repeat(255) })).toMatchObject({
      status: 'processed',
    })
  })

  test('an fn that is not a function is refused before anything is written', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    for (const call of [
      () => subject.inbox.process(transaction.tx, { id: 'x' }, undefined as never),
      () => subject.inbox.processBatch(transaction.tx, [{ id: 'x' }], 'fn' as never),
      () => subject.inbox.run({ id: 'x' }, undefined as never),
    ]) {
      await expect(call()).rejects.toThrow(TxboxError)
    }
    await transaction.commit()
    expect(await subject.claimedKeys()).toEqual([])
  })

  test('an error of the key extractor reaches the caller, and nothing is written', async () => {
    const thrown = new TypeError('payload has no order')
    const subject = new InboxUnderTest(target, root, {
      key: () => {
        throw thrown
      },
    })
    await expect(subject.process({ id: 'x' })).rejects.toBe(thrown)
    await expect(subject.inbox.run({ id: 'x' }, subject.handle)).rejects.toBe(thrown)
    expect([subject.calls, await subject.claimedKeys()]).toEqual([0, []])
  })

  test.for([[{ attempts: 0 }], [{ attempts: 1.5 }], [{ attempts: '3' }], [{ signal: {} }], [{ atempts: 3 }]])(
    'run with the options %j is an InvalidOptionError',
    async ([options]) => {
      const subject = new InboxUnderTest(target, root)
      await expect(subject.inbox.run({ id: 'x' }, subject.handle, options as never)).rejects.toThrow(
        InvalidOptionError,
      )
      expect([subject.calls, await subject.claimedKeys()]).toEqual([0, []])
    },
  )

  test('a connection that the server has killed is a DatabaseUnavailableError', async () => {
    const subject = new InboxUnderTest(target, root)
    const transaction = await root.begin()
    await subject.inbox.process(transaction.tx, { id: 'x' }, subject.handle)
    await target.kill(transaction)
    await expect(subject.inbox.process(transaction.tx, { id: 'y' }, subject.handle)).rejects.toThrow(
      DatabaseUnavailableError,
    )
    await transaction.rollback().catch(() => undefined)
    expect([subject.calls, await subject.claimedKeys()]).toEqual([1, []])
  })

  test('a database that cannot be reached is a retryable DatabaseUnavailableError', async () => {
    // Nothing listens on the port of the discard service.
    const nowhere = target.open(kind, { through: { address: { host: '127.0.0.1', port: 9 } } })
    const subject = new InboxUnderTest(target, nowhere)
    const error = await subject.inbox.run({ id: 'x' }, subject.handle).then(
      () => undefined,
      (reason: unknown) => reason,
    )
    await nowhere.close()
    expect(error).toBeInstanceOf(DatabaseUnavailableError)
    expect(error).toMatchObject({
      code: 'TXBOX_DATABASE_UNAVAILABLE',
      retryable: true,
      cause: expect.anything(),
    })
    expect(subject.calls).toBe(0)
  })
})

/** Every call that takes a transaction. */
function callsWith(
  inbox: InboxUnderTest['inbox'],
  handle: unknown,
  fn: () => void,
): (() => Promise<unknown>)[] {
  const tx = handle as never
  return [
    () => inbox.process(tx, { id: 'x' }, fn),
    () => inbox.processBatch(tx, [{ id: 'x' }, { id: 'y' }], fn),
    () => inbox.markProcessed(tx, { id: 'x' }),
    () => inbox.hasProcessed(tx, { id: 'x' }),
    () => inbox.forget(tx, { id: 'x' }),
  ]
}
