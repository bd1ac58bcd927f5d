import { expect, onTestFinished, test } from 'vitest'
import { DatabaseUnavailableError, TransactionAbortedError } from '@txbox/core'
import { InboxUnderTest, type Handler } from '../../support/subjects/inbox-under-test.ts'
import { libraryUnderTest } from '../../support/engines/library-roots.ts'
import { Proxy } from '../../support/worlds/proxy.ts'
import { skipBecause } from '../../support/tiers/skips.ts'
import { onEachKindAtUsualIsolation, useRoot, useTarget, type Root } from '../../support/engines/target.ts'

const target = useTarget()
const BEGIN = /begin|start transaction/i
const COMMIT = /commit/i

onEachKindAtUsualIsolation(target, (kind, isolation) => {
  const direct = useRoot(target, kind, { isolation })

  /** A root with one connection through a proxy, and an inbox on it that has already been used. */
  async function throughProxy(): Promise<{ proxy: Proxy; root: Root; subject: InboxUnderTest }> {
    const proxy = await Proxy.to(target.address())
    const root = target.open(kind, { isolation, max: 1, through: proxy })
    await root.ready?.()
    onTestFinished(async () => {
      await root.close()
      await proxy.close()
    })
    const subject = new InboxUnderTest(target, root)
    const other = new InboxUnderTest(target, root)
    await other.inbox.run({ id: 'warm up' }, other.handle)
    return { proxy, root, subject }
  }

  /** Delivers again after a rejection, as a broker does, here to a machine with a better network. */
  async function redeliver(subject: InboxUnderTest): Promise<string> {
    const elsewhere = new InboxUnderTest(target, direct, { consumer: subject.consumer })
    return (await elsewhere.inbox.run({ id: 'x' }, elsewhere.handle)).status
  }

  test('I10 a COMMIT whose answer is lost is not reported as processed, and takes effect once', async () => {
    const { proxy, subject } = await throughProxy()
    proxy.cutAfter(COMMIT)
    await expect(subject.inbox.run({ id: 'x' }, subject.handle)).rejects.toThrow(DatabaseUnavailableError)
    // The COMMIT was applied and only its answer was lost, which the redelivery must find out.
    expect(subject.calls).toBe(1)
    expect(await redeliver(subject)).toBe('duplicate')
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([1, ['x']])
  })

  test('I10 a COMMIT that never arrived is not reported as processed, and a redelivery takes effect', async () => {
    const { proxy, subject } = await throughProxy()
    proxy.cutBefore(COMMIT)
    await expect(subject.inbox.run({ id: 'x' }, subject.handle)).rejects.toThrow(DatabaseUnavailableError)
    expect(await redeliver(subject)).toBe('processed')
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([1, ['x']])
  })

  test('I10 a COMMIT that the server refuses is not reported as processed, and no transaction stays open', async () => {
    const { proxy, subject } = await throughProxy()
    proxy.garble(COMMIT)
    await expect(subject.inbox.run({ id: 'x' }, subject.handle)).rejects.toThrow()
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([0, []])
    if (libraryUnderTest?.losesConnectionAtCommit === true) return
    // Nothing can be written in a failed transaction, and the library drops its connection then.
    if (libraryUnderTest?.keepsRefusedCommit === true) {
      await expect(subject.inbox.run({ id: 'y' }, subject.handle)).rejects.toThrow(TransactionAbortedError)
    }
    // The only connection of the pool is not left in the failed transaction, where this would commit it.
    expect(await subject.inbox.run({ id: 'y' }, subject.handle)).toMatchObject({ status: 'processed' })
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([1, ['y']])
    expect(await redeliver(subject)).toBe('processed')
  })

  test('I10 a COMMIT that fails because of what the handler wrote is not reported as processed', async (context) => {
    if (target.failAtCommit === undefined) skipBecause(context, 'nothing-deferred')
    const { subject } = await throughProxy()
    const handle: Handler = async (tx, message, inboxContext) => {
      await subject.handle(tx, message, inboxContext)
      await target.failAtCommit?.(tx)
    }
    await expect(subject.inbox.run({ id: 'x' }, handle)).rejects.toThrow()
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([0, []])
    expect(await subject.inbox.run({ id: 'x' }, subject.handle)).toMatchObject({ status: 'processed' })
    expect(await subject.effects()).toBe(1)
  })

  test('I10 a BEGIN that was refused leaves no claim behind, and fn is not called', async (context) => {
    if (kind.losesConnectionAtBegin === true) skipBecause(context, 'connection-lost-at-begin')
    const { proxy, subject } = await throughProxy()
    proxy.garble(BEGIN)
    await expect(subject.inbox.run({ id: 'x' }, subject.handle)).rejects.toThrow()
    expect([subject.calls, await subject.claimedKeys()]).toEqual([0, []])
    // The pool's only connection can still be used.
    expect(await subject.inbox.run({ id: 'x' }, subject.handle)).toMatchObject({ status: 'processed' })
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([1, ['x']])
  })

  test('I10 a BEGIN that was refused does not change an existing claim', async (context) => {
    if (kind.losesConnectionAtBegin === true) skipBecause(context, 'connection-lost-at-begin')
    const { proxy, subject } = await throughProxy()
    await subject.inbox.run({ id: 'x' }, subject.handle)
    const before = await target.claims(subject.consumer)
    proxy.garble(BEGIN)
    await expect(subject.inbox.run({ id: 'x' }, subject.handle)).rejects.toThrow()
    expect(await target.claims(subject.consumer)).toEqual(before)
    expect(await redeliver(subject)).toBe('duplicate')
  })

  test('I10 a BEGIN that was refused does not change an expired claim, which stays expired', async (context) => {
    if (kind.losesConnectionAtBegin === true) skipBecause(context, 'connection-lost-at-begin')
    const { proxy, subject } = await throughProxy()
    await subject.inbox.run({ id: 'x' }, subject.handle)
    await target.expire(subject.consumer)
    proxy.garble(BEGIN)
    await expect(subject.inbox.run({ id: 'x' }, subject.handle)).rejects.toThrow()
    expect(await redeliver(subject)).toBe('processed')
    expect(await subject.effects()).toBe(2)
  })

  for (const when of ['cutBefore', 'cutAfter'] as const) {
    test(`I10 a connection that breaks at BEGIN leaves no claim behind (${when})`, async (context) => {
      if (kind.losesConnectionAtBegin === true) skipBecause(context, 'connection-lost-at-begin')
      const { proxy, subject } = await throughProxy()
      proxy[when](BEGIN)
      await expect(subject.inbox.run({ id: 'x' }, subject.handle)).rejects.toThrow(DatabaseUnavailableError)
      expect([subject.calls, await subject.claimedKeys()]).toEqual([0, []])
      expect(await redeliver(subject)).toBe('processed')
    })
  }

  test('I10 when a connection breaks while fn works, run rejects, even if fn swallows the error', async () => {
    const { proxy, subject } = await throughProxy()
    const carefree: Handler = async (tx, message, context) => {
      await subject.handle(tx, message, context)
      proxy.cut()
      await target.effect(tx, subject.consumer).catch(() => undefined)
    }
    await expect(subject.inbox.run({ id: 'x' }, carefree)).rejects.toThrow()
    expect(await redeliver(subject)).toBe('processed')
    expect(await subject.effects()).toBe(1)
    if (libraryUnderTest?.losesBrokenConnection === true) return
    // A new connection is opened for the next message.
    expect(await subject.inbox.run({ id: 'y' }, subject.handle)).toMatchObject({ status: 'processed' })
  })

  test('I10 when a connection breaks while the claim waits for a winner, run rejects, and nothing is lost', async () => {
    const { proxy, subject } = await throughProxy()
    const elsewhere = new InboxUnderTest(target, direct, { consumer: subject.consumer })
    const winner = await direct.begin()
    await elsewhere.inbox.process(winner.tx, { id: 'x' }, elsewhere.handle)
    const waiting = expect(subject.inbox.run({ id: 'x' }, subject.handle)).rejects.toThrow(
      DatabaseUnavailableError,
    )
    await target.blocked(1)
    proxy.cut()
    await waiting
    await winner.rollback()
    expect(subject.calls).toBe(0)
    expect(await redeliver(subject)).toBe('processed')
    expect([await subject.effects(), await subject.claimedKeys()]).toEqual([1, ['x']])
  })
})
