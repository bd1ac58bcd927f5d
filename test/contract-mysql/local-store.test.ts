import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { TransactionAbortedError } from '@txbox/core'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import {
  AT,
  LocalRowsUnderTest,
  idsOf,
  messageFor,
  refusalOf,
} from '../support/subjects/local-rows-under-test.ts'
import { kindsOfTier, mainKind, useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

describe.each(kindsOfTier(target).map((kind) => [kind.name, kind] as const))('%s', (_, kind) => {
  const root = useRoot(target, kind, { isolation: 'read committed', max: 8 })
  let local: LocalRowsUnderTest

  beforeAll(() => {
    local = new LocalRowsUnderTest(root, target)
  })
  beforeEach(async () => {
    await outbox.clear()
    await local.holdLease()
  })

  test('L1 a message is locked, then removed with what its handler has written', async () => {
    const ids = await local.publish('a', 'b', undefined)
    const read = await local.read()
    expect(idsOf(read)).toEqual(ids)
    const transaction = await root.begin()
    expect(await local.lockIn(transaction, read.slice(0, 1))).toEqual(ids.slice(0, 1))
    await local.removeIn(transaction, read.slice(0, 1))
    await transaction.rollback()
    expect((await local.rowsOf('outbox')).length).toBe(3)
    const again = await root.begin()
    expect(await local.lockIn(again, read)).toEqual(ids)
    await local.removeIn(again, read.slice(1))
    await again.commit()
    expect(idsOf(await local.rowsOf('outbox'))).toEqual(ids.slice(0, 1))
  })

  test('L1 nothing is locked under another term, owner or name, or an expired lease', async () => {
    await local.publish('a', 'b')
    const read = await local.read()
    const transaction = await root.begin()
    const session = await local.ports.bind(transaction.tx)
    for (const stale of [
      { ...local.lease, term: 6n },
      { ...local.lease, owner: 'you' },
      { ...local.lease, name: 'local/billing/4' },
    ]) {
      expect(await local.store.lock(session, stale, AT, read.slice(0, 1))).toEqual([])
      expect(await local.store.lock(session, stale, AT, read)).toEqual([])
    }
    await outbox.expireLeases()
    expect(await local.store.lock(session, local.lease, AT, read)).toEqual([])
    await transaction.rollback()
  })

  test('L1 the lease is neither locked by a handler, nor waited for', async () => {
    await local.publish('a', 'b')
    const read = await local.read()
    const renewing = await root.begin()
    await renewing.exec(
      "update txbox_leases set expires_at = expires_at + interval 1 second where name = 'local/billing/3'",
    )
    const handling = await root.begin()
    await target.limitLockWait(handling, 1000)
    expect(await local.lockIn(handling, read.slice(0, 1))).toHaveLength(1)
    expect(await local.lockIn(handling, read)).toHaveLength(2)
    await renewing.commit()
    const next = await root.begin()
    await target.limitLockWait(next, 1000)
    await next.exec("update txbox_leases set owner = 'you', term = term + 1 where name = 'local/billing/3'")
    await next.commit()
    await handling.rollback()
  })

  test('L4 rows that another transaction has locked are skipped, waiting or parked', async () => {
    const ids = await local.publish('a', 'b', 'c')
    const read = await local.read()
    await local.settle({ refused: [refusalOf(read[0]!)] })
    const all = [...(await local.readDue()), ...(await local.read())]
    expect(idsOf(all)).toEqual(ids)
    const [first, second] = [await root.begin(), await root.begin()]
    await target.limitLockWait(second, 1000)
    expect(await local.lockIn(first, all.slice(0, 2))).toEqual(ids.slice(0, 2))
    expect(await local.lockIn(second, all)).toEqual(ids.slice(2))
    expect(await local.lockIn(second, all.slice(0, 1))).toEqual([])
    await first.rollback()
    expect(await local.lockIn(second, all)).toEqual(ids)
    await local.removeIn(second, all)
    await second.commit()
    expect([...(await local.rowsOf('outbox')), ...(await local.rowsOf('parked'))]).toEqual([])
  })

  test('L1 a row with another stamp, another shard, or that is dead, is not locked', async () => {
    await local.publish('a', 'b', 'c')
    const [a, b, c] = await local.read()
    await local.settle({ refused: [refusalOf(b!), refusalOf(c!)] })
    const [parked, dead] = await local.readDue()
    await local.settle({ refused: [refusalOf(dead!, { retryInMs: undefined })] })
    const transaction = await root.begin()
    const session = await local.ports.bind(transaction.tx)
    const wrong = [a!, parked!].flatMap((row) => [{ ...row, stamp: row.stamp + 1 }])
    for (const rows of [wrong, wrong.slice(0, 1), wrong.slice(1), [dead!], [dead!, dead!]]) {
      expect(await local.store.lock(session, local.lease, AT, rows)).toEqual([])
    }
    for (const at of [
      { ...AT, shard: 4 },
      { ...AT, consumer: 'billing2' },
    ]) {
      expect(await local.store.lock(session, local.lease, at, [a!])).toEqual([])
      expect(await local.store.lock(session, local.lease, at, [parked!])).toEqual([])
      expect(await local.store.lock(session, local.lease, at, [a!, parked!])).toEqual([])
    }
    expect(await local.store.lock(session, local.lease, AT, [a!, parked!])).toHaveLength(2)
    await transaction.rollback()
  })

  test('L1 a handler whose message is gone holds up no publisher', async () => {
    await local.publish('a', 'b', 'c')
    const read = await local.read()
    await local.settle({ accepted: read })
    const handling = await root.begin()
    expect(await local.lockIn(handling, read.slice(0, 1))).toEqual([])
    expect(await local.lockIn(handling, read)).toEqual([])
    const publishing = await root.begin()
    await target.limitLockWait(publishing, 1000)
    await local.append(publishing, [messageFor(), messageFor({ shard: 2 })])
    await publishing.commit()
    await handling.rollback()
  })

  test("L1 a removal waits for no publisher's open transaction", async () => {
    await local.publish('a', 'b', 'c')
    const read = await local.read()
    const publishing = await root.begin()
    await local.append(publishing, [messageFor()])
    for (const rows of [read.slice(0, 1), read.slice(1)]) {
      const handling = await root.begin()
      await target.limitLockWait(handling, 1000)
      expect(await local.lockIn(handling, rows)).toHaveLength(rows.length)
      await local.removeIn(handling, rows)
      await handling.commit()
    }
    expect(await local.read()).toEqual([])
    await publishing.commit()
    expect(await local.read()).toHaveLength(1)
  })

  test('L1 a removal of fewer messages than were handled fails', async () => {
    await local.publish('a', 'b')
    const read = await local.read()
    await local.settle({ accepted: read.slice(0, 1) })
    const transaction = await root.begin()
    await expect(local.removeIn(transaction, read)).rejects.toThrow(TransactionAbortedError)
    await expect(local.removeIn(transaction, read.slice(0, 1))).rejects.toThrow(TransactionAbortedError)
    await transaction.rollback()
    expect(await local.read()).toHaveLength(1)
  })
})

describe('with settings of the session', () => {
  const kind = mainKind(target)
  const root = useRoot(target, kind, { isolation: 'read committed', max: 4 })

  test.each([
    'set session sql_safe_updates = 1',
    "set session sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
    'set session sql_select_limit = 1',
  ])('O18 a handler locks and removes messages after %s', async (setting) => {
    await outbox.clear()
    const local = new LocalRowsUnderTest(root, target)
    await local.holdLease()
    const ids = await local.publish('a', 'b', 'c')
    const transaction = await root.begin()
    await transaction.exec(setting)
    const read = await local.read()
    expect(await local.lockIn(transaction, read)).toEqual(ids)
    await local.append(transaction, [messageFor({ topic: 'x' }), messageFor()])
    await local.removeIn(transaction, read)
    await transaction.exec(
      'set session sql_safe_updates = default, session sql_mode = default, session sql_select_limit = default',
    )
    await transaction.commit()
    expect(await local.read()).toHaveLength(2)
  })
})
