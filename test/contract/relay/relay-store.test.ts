import { expect, test } from 'vitest'
import { LeaseLostError } from '@txbox/core'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { LIMITS, SHARD, StoreUnderTest, idsOf, refusal } from '../../support/subjects/store-under-test.ts'
import { onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)
  const start = async (): Promise<StoreUnderTest> => {
    const relay = new StoreUnderTest(root, target, outbox)
    await relay.takeLease()
    return relay
  }

  test('O3 messages are read in the order of their numbers, each with its stamp, and accepted messages are deleted', async () => {
    const relay = await start()
    const ids = await relay.publish('k', 'l', undefined, 'k')
    const read = await relay.read()
    expect(idsOf(read)).toEqual(ids)
    for (const { stamp, createdAt, errors } of read) {
      expect(Number.isSafeInteger(stamp)).toBe(true)
      expect(createdAt.getTime()).toBe(Math.floor(stamp / 1000))
      expect(errors).toBeUndefined()
    }
    await relay.settle({ accepted: read.slice(0, 3) })
    expect(idsOf(await relay.read())).toEqual(ids.slice(3))
    // Without addresses, and together with messages that are already deleted.
    await relay.settle({ accepted: read.map(({ seq, stamp }) => ({ seq, stamp, address: undefined })) })
    expect(await relay.read()).toEqual([])
  })

  test('O4 a refused message is parked with its errors, the message behind it waits, and both continue in order', async () => {
    const relay = await start()
    const ids = await relay.publish('k', 'k', 'k', 'other')
    const read = await relay.read()
    const errors = JSON.stringify([{ at: '2026-01-01T00:00:00.000Z', attempt: 1, error: 'no\0 “é”' }])
    await relay.park(read.slice(0, 3), { errors, error: 'no\0 “é”' })
    expect(idsOf(await relay.read())).toEqual([ids[3]])
    expect(await relay.store.work([SHARD])).toEqual([{ shard: SHARD, due: true }])
    const [head, ...rest] = await relay.readDue()
    expect([head?.id, rest]).toEqual([ids[0], []])
    expect([head?.attempts, head?.errors, head?.stamp]).toEqual([1, errors, read[0]?.stamp])

    await relay.store.settleParked(relay.lease, SHARD, {
      accepted: [head!],
      refused: [],
      released: [{ key: 'k', after: head!.seq }],
    })
    const onward = await relay.readDue()
    expect(idsOf(onward)).toEqual(ids.slice(1, 3))
    await relay.store.settleParked(relay.lease, SHARD, {
      accepted: onward.slice(0, 1),
      refused: [refusal(onward[1]!, { retryInMs: undefined, attempts: 7 })],
      released: [{ key: 'k', after: onward[1]!.seq }],
    })
    expect(await relay.readDue()).toEqual([])
    expect((await outbox.parked()).map(({ id, dead, attempts }) => [id, dead, attempts])).toEqual([
      [ids[2], true, 7],
    ])
  })

  test('O9 only readSuspect reads suspects, one by one, each when it comes first in its key', async () => {
    const relay = await start()
    const ids = await relay.publish('k', 'k', undefined, 'l')
    const read = await relay.read()
    await relay.settle({
      refused: [refusal(read[0]!, { suspect: true }), refusal(read[2]!, { suspect: true })],
      behind: [{ row: read[1]!, suspect: false }],
    })
    expect(await relay.readDue()).toEqual([])
    expect(await relay.store.work([SHARD])).toEqual([{ shard: SHARD, due: true }])
    const first = await relay.readSuspect()
    expect(first?.id).toBe(ids[0])
    await relay.store.settleParked(relay.lease, SHARD, {
      accepted: [first!],
      refused: [],
      released: [{ key: 'k', after: first!.seq }],
    })
    const second = await relay.readSuspect()
    expect(second?.id).toBe(ids[2])
    expect(idsOf(await relay.readDue())).toEqual([ids[1]])
    // A rejection is an answer, so the message is no longer a suspect.
    await relay.store.settleParked(relay.lease, SHARD, {
      accepted: [],
      refused: [refusal(second!, { attempts: 2 })],
      released: [],
    })
    expect(await relay.readSuspect()).toBeUndefined()
    expect(idsOf(await relay.readDue()).toSorted()).toEqual(ids.slice(1, 3).toSorted())
  })

  test('O9 a range of parked messages becomes suspect, and a read of their key ends before the first of them', async () => {
    const relay = await start()
    const ids = await relay.publish('k', 'k', 'k', 'k')
    await relay.park(await relay.read(), { attempts: 0 })
    const onward = await relay.readDue()
    expect(idsOf(onward)).toEqual(ids)
    await relay.store.suspectParked(relay.lease, SHARD, { from: onward[2]!.seq, to: onward[3]!.seq })
    expect(idsOf(await relay.readDue())).toEqual(ids.slice(0, 2))
    expect(await relay.readSuspect()).toBeUndefined()
    await relay.store.settleParked(relay.lease, SHARD, {
      accepted: onward.slice(0, 2),
      refused: [],
      released: [{ key: 'k', after: onward[1]!.seq }],
    })
    expect(await relay.readDue()).toEqual([])
    expect((await relay.readSuspect())?.id).toBe(ids[2])
  })

  test('O5 a key whose parked head was deleted by hand continues', async () => {
    const relay = await start()
    const ids = await relay.publish('k', 'k', 'l', 'l', 'm', 'm')
    const read = await relay.read()
    for (const from of [0, 2, 4]) await relay.park(read.slice(from, from + 2), { retryInMs: 3_600_000 })
    expect(await relay.store.healKeys(relay.lease, SHARD)).toBe(0)
    await outbox.sql(`delete from ${relay.table('parked')} where id in (?, ?)`, [ids[0], ids[4]])
    expect(await relay.readDue()).toEqual([])
    expect(await relay.store.healKeys(relay.lease, SHARD)).toBe(2)
    expect(idsOf(await relay.readDue()).toSorted()).toEqual(
      ids.filter((_, n) => n === 1 || n === 5).toSorted(),
    )
    expect(await relay.store.healKeys(relay.lease, SHARD)).toBe(0)
  })

  test('O7 no message is settled, marked or healed under the lease of another owner', async () => {
    const relay = await start()
    const ids = await relay.publish('k', 'k')
    const read = await relay.read()
    const { store, lease: old } = relay
    await relay.leases.release([old])
    await relay.takeLease('b')
    const parked = { accepted: read, refused: [], released: [] }
    for (const attempt of [
      () => store.settle(old, SHARD, { accepted: read, refused: [], behind: [] }),
      () => store.settle(old, SHARD, { accepted: [], refused: [refusal(read[0]!)], behind: [] }),
      () => store.settleParked(old, SHARD, parked),
      () => store.suspectParked(old, SHARD, { from: 0n, to: 100n }),
      () => store.healKeys(old, SHARD),
    ]) {
      await expect(attempt()).rejects.toThrow(LeaseLostError)
    }
    expect(idsOf(await store.read(SHARD, LIMITS))).toEqual(ids)
  })
})
