import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { LeaseLostError } from '@txbox/core'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import {
  AT,
  LIMITS,
  LocalRowsUnderTest,
  idsOf,
  refusalOf,
} from '../support/subjects/local-rows-under-test.ts'
import { kindsOfTier, useRoot, useTarget } from '../support/engines/target.ts'

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

  test('L2 messages of busy keys are left out of a read, and keyless ones are not', async () => {
    await local.publish('a', 'a ', undefined, 'A', 'b')
    expect((await local.read('a', 'b')).map(({ key }) => key)).toEqual(['a ', undefined, 'A'])
    const { messages, certain } = await local.store.read(
      AT,
      { messages: 2, bytes: 1_000_000 },
      { after: undefined, without: ['a'] },
    )
    expect([messages.map(({ key }) => key), certain]).toEqual([['a ', undefined], undefined])
  })

  test('L5 a settlement parks, keeps, buries and deletes, whatever handlers have locked meanwhile', async () => {
    const ids = await local.publish('held', 'held', 'a', 'a', 'b', 'c', 'd')
    const read = await local.read()
    const [held, behindHeld, a, behindA, b, c, d] = read
    const handling = await root.begin()
    await local.lockIn(handling, [held!, d!])
    const left = await local.settle({
      accepted: [c!, d!],
      refused: [
        refusalOf(held!),
        refusalOf(a!, { retryInMs: 60_000 }),
        refusalOf(b!, { retryInMs: undefined }),
      ],
      behind: [behindHeld!, behindA!],
    })
    // The row behind the locked one stays as well: as a parked message, it would come before it.
    expect(idsOf(left as never)).toEqual([ids[6], ids[0], ids[1]])
    expect(idsOf(await local.rowsOf('outbox'))).toEqual([ids[0], ids[1], ids[6]])
    expect((await local.rowsOf('parked')).map(({ id, due }) => [id, due])).toEqual([
      [ids[2], 1],
      [ids[3], 0],
      [ids[4], 0],
    ])
    await handling.rollback()
    expect(await local.settle({ accepted: [held!, behindHeld!, c!, d!] })).toEqual([])
    expect(await local.read()).toEqual([])
  })

  test('L5 a settlement under a lost lease changes nothing', async () => {
    await local.publish('a', 'b', 'c')
    const read = await local.read()
    await outbox.expireLeases()
    const settling = local.settle({ accepted: read.slice(0, 1), refused: [refusalOf(read[1]!)] })
    await expect(settling).rejects.toThrow(LeaseLostError)
    await expect(local.store.suspect(local.lease, AT, read)).rejects.toThrow(LeaseLostError)
    expect(idsOf(await local.read())).toEqual(idsOf(read))
    expect(await local.rowsOf('parked')).toEqual([])
  })

  test('L5 a settlement does not keep the lease from being renewed while it waits', async () => {
    await local.publish('a', 'b')
    const [a] = await local.read()
    const taking = await root.begin()
    await taking.exec("update txbox_leases set owner = 'you', term = term + 1 where name = 'local/billing/3'")
    const settling = expect(local.settle({ accepted: [a!] })).rejects.toThrow(LeaseLostError)
    await target.blocked(1)
    await taking.commit()
    await settling
    expect(await local.read()).toHaveLength(2)
  })

  test('L5 a released key goes on, unless a handler has its message already', async () => {
    const ids = await local.publish('a', 'a', 'a')
    const read = await local.read()
    await local.settle({ refused: [refusalOf(read[0]!)], behind: read.slice(1) })
    const [head] = await local.readDue()
    const first = await root.begin()
    await local.lockIn(first, [head!])
    await local.removeIn(first, [head!])
    await first.commit()
    const [next] = await local.store.readDue(local.lease, AT, LIMITS)
    expect(next).toBe(undefined)
    const rows = await local.rowsOf('parked')
    expect(idsOf(rows)).toEqual(ids.slice(1))
    const handling = await root.begin()
    await handling.exec('select 1 from txbox_local_parked where id = ? for update', [ids[1]])
    await local.store.release(local.lease, AT, ['a', 'other'])
    expect(await local.store.healKeys(local.lease, AT)).toBe(0)
    await handling.rollback()
    expect(await local.store.healKeys(local.lease, AT)).toBe(1)
    expect(await local.store.healKeys(local.lease, AT)).toBe(0)
    expect(idsOf(await local.readDue())).toEqual(ids.slice(1))
  })

  test('L5 a due message that is not the first of its key waits behind it, unless a handler has locked it', async () => {
    const ids = await local.publish('a', 'a', 'b')
    const read = await local.read()
    await local.settle({ refused: [refusalOf(read[0]!), refusalOf(read[2]!)], behind: [read[1]!] })
    await target.sql('update txbox_local_parked set due_at = utc_timestamp(6) where id = ?', [ids[1]])
    const handling = await root.begin()
    await handling.exec('select 1 from txbox_local_parked where id = ? for update', [ids[1]])
    expect(idsOf(await local.readDue())).toEqual([ids[0], ids[2]])
    await handling.rollback()
    expect(idsOf(await local.readDue())).toEqual([ids[0], ids[2]])
    expect((await local.rowsOf('parked')).find(({ id }) => id === ids[1])?.due).toBe(0)
  })

  test('O9 suspects move with the messages before them in their keys, and are read alone', async () => {
    const ids = await local.publish('a', 'b', 'a', undefined, 'c', 'a')
    const read = await local.read()
    const handling = await root.begin()
    await local.lockIn(handling, [read[4]!])
    const left = await local.store.suspect(local.lease, AT, [read[2]!, read[3]!, read[4]!])
    expect(idsOf(left as never)).toEqual([ids[4]])
    expect(idsOf(await local.rowsOf('outbox'))).toEqual([ids[1], ids[4], ids[5]])
    expect((await local.rowsOf('parked')).map(({ id, due }) => [id, due])).toEqual([
      [ids[0], 1],
      [ids[2], 0],
      [ids[3], 1],
    ])
    expect((await local.store.readSuspect(AT, LIMITS))?.id).toBe(ids[3])
    const [first] = await local.readDue()
    expect([first?.id, first?.isSuspect]).toEqual([ids[0], false])
    await handling.rollback()
    expect(await local.store.suspect(local.lease, AT, [first!])).toEqual([])
    expect((await local.store.readSuspect(AT, LIMITS))?.isSuspect).toBe(true)
  })

  test('O9 a suspect stays if a message before it in its key is locked', async () => {
    const ids = await local.publish('a', 'a', 'b')
    const read = await local.read()
    const handling = await root.begin()
    await local.lockIn(handling, [read[0]!])
    expect(idsOf((await local.store.suspect(local.lease, AT, read.slice(1))) as never)).toEqual([ids[1]])
    expect(idsOf(await local.rowsOf('outbox'))).toEqual([ids[0], ids[1]])
    await handling.rollback()
  })

  test('L4 a key is unlocked when no other transaction has one of its rows, and looking locks no other key', async () => {
    await local.publish('a', 'b', 'a', 'c')
    const read = await local.read()
    await local.settle({ refused: [refusalOf(read[3]!)] })
    const [c] = await local.readDue()
    const unlocked = async (): Promise<boolean[]> => {
      const answers: boolean[] = []
      for (const key of ['a', 'b', 'c', 'nothing']) answers.push(await local.store.isKeyUnlocked(AT, key))
      return answers
    }
    expect(await unlocked()).toEqual([true, true, true, true])
    const handling = await root.begin()
    await local.lockIn(handling, [read[2]!, c!])
    expect(await unlocked()).toEqual([false, true, false, true])
    await handling.rollback()
    expect(await unlocked()).toEqual([true, true, true, true])
  })

  test('L6 messages that had no handler are due as soon as there is one', async () => {
    const ids = await local.publish('a', 'b', 'c')
    const read = await local.read()
    await local.settle({
      refused: read.map((row, n) => refusalOf(row, { attempts: 0, retryInMs: 60_000, unhandled: n < 2 })),
    })
    expect(await local.readDue()).toEqual([])
    await local.store.handled('billing', ['another type'])
    await local.store.handled('another', ['order.placed'])
    await local.store.handled('billing', [])
    expect(await local.readDue()).toEqual([])
    await local.store.handled('billing', ['another type', 'order.placed'])
    expect(idsOf(await local.readDue())).toEqual(ids.slice(0, 2))
  })

  test('U4 one statement finds the shards that have rows', async () => {
    await local.publish('a')
    const [a] = await local.read()
    const at = (consumer: string, shard: number) => ({ consumer, shard })
    const asked = [at('other"\\\'', 3), AT, at('billing', 4), at('BILLING', 3)]
    expect(await local.store.work(asked)).toEqual([{ ...AT, waiting: true, due: false }])
    await local.settle({ refused: [refusalOf(a!, { retryInMs: 60_000 })] })
    expect(await local.store.work(asked)).toEqual([])
    await target.sql('update txbox_local_parked set due_at = utc_timestamp(6)')
    expect(await local.store.work(asked)).toEqual([{ ...AT, waiting: false, due: true }])
    expect(await local.store.work([])).toEqual([])
    expect(local.store.generation).toBe(0)
  })

  test('O9 the lease keeps the note of what is in flight', async () => {
    expect(await local.store.note(local.lease, 'x')).toBe(true)
    expect(await local.store.note(local.lease, 'x')).toBe(true)
    expect(await local.store.note({ ...local.lease, term: 6n }, 'y')).toBe(false)
    await target.sql('update txbox_leases set crashes = 2')
    await local.store.survived(local.lease)
    const [row] = await target.sql('select crashes, in_flight from txbox_leases')
    expect(row).toEqual({ crashes: 0, in_flight: null })
  })
})
