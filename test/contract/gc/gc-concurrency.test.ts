import { describe, expect, test } from 'vitest'
import { createGarbageCollector } from '@txbox/gc'
import { useGarbage } from '../../support/subjects/garbage.ts'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { mainKind, onMainRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const COLLECTORS = 5

const target = useTarget()
const garbage = useGarbage(target)

onMainRoot(target, (kind) => {
  const root = useRoot(target, kind, { max: COLLECTORS + 12 })

  test('G3 each row is removed, and counted, by exactly one of several collectors', async () => {
    await garbage.expiredClaims('c', 3000)
    await garbage.park(...Array.from({ length: 40 }, (_, n) => ({ id: `d${n}`, diedAgo: 100 * 86_400 + n })))
    const all = await Promise.all(
      Array.from({ length: COLLECTORS }, (_, n) =>
        createGarbageCollector({ database: root.database, pauseMs: 0, batchSize: 20 + n }).runOnce(),
      ),
    )
    const sum = (of: 'inbox' | 'deadLetters' | 'failures'): number =>
      all.reduce((total, collected) => total + collected[of], 0)
    expect([sum('inbox'), sum('deadLetters'), sum('failures')]).toEqual([3000, 40, 0])
    expect([await garbage.claimCount(), await garbage.parkedIds()]).toEqual([0, []])
  })

  test('G3 a collector never waits: rows that another transaction has locked are left for the next run', async () => {
    const subject = new InboxUnderTest(target, root)
    for (const id of ['a', 'b', 'c']) await subject.process({ id })
    await target.expire(subject.consumer)
    await garbage.park({ id: 'd', diedAgo: 100 * 86_400 }, { id: 'e', diedAgo: 99 * 86_400 })
    const transaction = await root.begin()
    // The transaction takes over one of the expired claims, and locks one of the dead letters.
    await subject.inbox.process(transaction.tx, { id: 'b' }, subject.handle)
    await transaction.exec(`select place from ${garbage.table('parked')} where id = ? for update`, ['d'])
    const gc = createGarbageCollector({ database: root.database })
    expect(await gc.runOnce()).toMatchObject({ inbox: 2, deadLetters: 1, failures: 0 })
    await transaction.commit()
    expect(await subject.claimedKeys()).toEqual(['b'])
    expect(await gc.runOnce()).toMatchObject({ inbox: 0, deadLetters: 1 })
    expect(await subject.process({ id: 'b' })).toMatchObject({ status: 'duplicate' })
  })

  test('G3 a collector does not wait for another collector that is recording its figures', async () => {
    const transaction = await root.begin()
    await transaction.exec(`update ${garbage.table('collections')} set inbox = 1 where id = 1`)
    expect(await createGarbageCollector({ database: root.database }).runOnce()).toMatchObject({ failures: 0 })
    await transaction.rollback()
  })

  test('G3 deliveries continue while collectors run, without a conflict, and each takes effect once', async () => {
    const subject = new InboxUnderTest(target, root)
    await garbage.expiredClaims('other', 2000)
    await garbage.expiredClaims(subject.consumer, 200)
    const collecting = Promise.all(
      [1, 2].map(() =>
        createGarbageCollector({ database: root.database, pauseMs: 0, batchSize: 50 }).runOnce(),
      ),
    )
    // Expired keys, which collectors are about to remove, and new keys.
    const deliver = async (first: number): Promise<void> => {
      for (let n = first; n <= 200; n += 8) await subject.process({ id: String(n) })
      for (let n = first; n <= 40; n += 8) await subject.process({ id: `new-${n}` })
    }
    await Promise.all(Array.from({ length: 8 }, (_, index) => deliver(index + 1)))
    const failures = (await collecting).reduce((total, collected) => total + collected.failures, 0)
    expect([failures, await subject.effects()]).toEqual([0, 240])
    expect((await subject.claimedKeys()).length).toBe(240)
  })
})

describe('a batch that is in flight', () => {
  const root = useRoot(target, mainKind(target))

  /** A batch that has locked its rows and not committed yet. */
  async function openBatch(): Promise<{ commit: () => Promise<void> }> {
    const held = await garbage.holdBatch(root)
    const running = createGarbageCollector({ database: root.database }).runOnce()
    await garbage.batchHeld()
    return {
      async commit() {
        await held.letGo()
        await running
      },
    }
  }

  test('G3 deliveries of other keys, new and duplicate, do not wait for the batch', async () => {
    const subject = new InboxUnderTest(target, root)
    await subject.process({ id: 'live' })
    await garbage.expiredClaims(subject.consumer, 100)
    const batch = await openBatch()
    expect(await subject.process({ id: 'live' })).toMatchObject({ status: 'duplicate' })
    for (let n = 0; n < 20; n += 1) {
      expect(await subject.process({ id: `new-${n}` })).toMatchObject({ status: 'processed' })
    }
    await batch.commit()
    expect(await subject.effects()).toBe(21)
  })

  test('G3 a delivery of a key that the batch removes waits at most for the end of the batch, and takes effect', async () => {
    const subject = new InboxUnderTest(target, root)
    await garbage.expiredClaims(subject.consumer, 100)
    const batch = await openBatch()
    const delivered = subject.process({ id: '50' })
    // On PostgreSQL the batch itself is held by a lock that counts.
    await target.blocked(target.engine === 'postgres' ? 2 : 1)
    await batch.commit()
    expect(await delivered).toMatchObject({ status: 'processed' })
    expect(await subject.claimedKeys()).toEqual(['50'])
  })
})
