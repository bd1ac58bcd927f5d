import { expect, test } from 'vitest'
import {
  InvalidOptionError,
  type IsolationLevel,
  type TransactOptions,
  type TransactionHandle,
} from '@txbox/core'
import type { InboxOutcome } from '@txbox/inbox'
import { InboxUnderTest } from '../support/inbox-under-test.ts'
import { onEachKind, useRoot, useTarget } from '../support/target.ts'

const target = useTarget()

onEachKind(target, (kind) => {
  const root = useRoot(target, kind)

  test.for<[string, unknown]>([
    ['an isolation level that is none', { isolation: 'snapshot' }],
    ['SQL in the place of an isolation level', { isolation: 'read committed; drop table effects; -- ' }],
    ['an isolation level in capitals', { isolation: 'SERIALIZABLE' }],
    ['an isolation level of null', { isolation: null }],
    ['an isolation level that an object has by inheritance', { isolation: 'constructor' }],
    ['a misspelt option', { isolationLevel: 'serializable' }],
    ['a signal that is none', { signal: {} }],
    ['options that are no object', 'serializable'],
    ['no options but null', null],
  ])('transact refuses %s, and runs nothing', async ([, options]) => {
    let ran = false
    const transacted = root.database.transact(async () => void (ran = true), options as TransactOptions)
    await expect(transacted).rejects.toThrow(InvalidOptionError)
    expect(ran).toBe(false)
    await target.sql('select * from effects')
  })

  test.for<[IsolationLevel | undefined]>([
    ['read committed'],
    ['repeatable read'],
    ['serializable'],
    [undefined],
  ])('transact takes the isolation level %s, and commits', async ([isolation]) => {
    const subject = new InboxUnderTest(target, root)
    const { signal } = new AbortController()
    const work = (tx: TransactionHandle): Promise<InboxOutcome> =>
      subject.inbox.process(tx, { id: 'x' }, subject.handle)
    expect(await root.database.transact(work, { isolation, signal })).toMatchObject({ status: 'processed' })
    expect(await subject.effects()).toBe(1)
  })

  test('transact whose signal is aborted runs nothing, and rejects with the reason', async () => {
    const reason = new Error('no longer wanted')
    const work = (): Promise<never> => Promise.reject(new Error('It ran.'))
    const transacted = root.database.transact(work, { signal: AbortSignal.abort(reason) })
    await expect(transacted).rejects.toBe(reason)
  })
})
