import { expect, test } from 'vitest'
import { connectedPortsOf, shardOf } from '@txbox/core/internal'
import { createGarbageCollector, type Progress } from '@txbox/gc'
import { useGarbage } from '../../support/subjects/garbage.ts'
import { QueueUnderTest, idsOf } from '../../support/subjects/queue-under-test.ts'
import { onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const DAY = 86_400

const target = useTarget()
const garbage = useGarbage(target)

/** Five keys of one shard. */
const KEYS = Array.from({ length: 1000 }, (_, n) => `key ${n}`)
  .filter((key) => shardOf(key) === 3)
  .slice(0, 5)

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)

  test('G1 G2 dead letters of queues are removed batch by batch when they are older than their retention', async () => {
    const subject = new QueueUnderTest(target, root)
    await subject.send(...['a', 'b', 'c', 'd', 'e'].map((key) => ({ key, id: key })))
    for (const received of await subject.receive()) await subject.queue.bury(received, { error: 'no' })
    for (const [id, ago] of [
      ['a', 31],
      ['b', 29],
      ['c', 40],
      ['d', 50],
    ] as const) {
      await garbage.diedAgo(subject.queue.name, id, ago * DAY)
    }
    await subject.send({ id: 'waits', key: 'a' }, { id: 'another', key: 'a' }, { id: 'unkeyed' })
    await garbage.park({ id: 'of the outbox', diedAgo: 35 * DAY })
    const { deadLetters } = await connectedPortsOf('test', root.database)
      .inspection()
      .collectable(30 * DAY * 1000)
    expect(deadLetters).toEqual({ count: 4, atLeast: false })
    const gc = createGarbageCollector({ database: root.database, batchSize: 2, pauseMs: 0 })
    const progress: Progress[] = []
    const collected = await gc.runOnce({ onProgress: (soFar) => progress.push(soFar) })
    expect(collected).toMatchObject({ deadLetters: 4, complete: true, failures: 0 })
    expect([...new Set(progress.map(({ deadLetters }) => deadLetters))]).toEqual([0, 1, 3, 4])
    expect((await garbage.deadIds(subject.queue.name)).toSorted()).toEqual(['b', 'e'])
    expect(Number((await garbage.lastCollection())['dead_letters'])).toBe(4)

    const never = createGarbageCollector({ database: root.database, deadLetterRetentionMs: Infinity })
    expect(await never.runOnce()).toMatchObject({ deadLetters: 0, complete: true })
    const atOnce = createGarbageCollector({ database: root.database, deadLetterRetentionMs: 0 })
    expect(await atOnce.runOnce()).toMatchObject({ deadLetters: 2 })
    expect((await subject.drain()).toSorted()).toEqual(['another', 'unkeyed', 'waits'])
  })

  test('G1 G2 Q20 rows that handled messages leave in queues are removed batch by batch, and their keys continue', async () => {
    const [one, other] = [new QueueUnderTest(target, root), new QueueUnderTest(target, root)]
    await one.send(
      ...KEYS.flatMap((key) => [
        { key, id: `${key} first` },
        { key, id: `${key} second` },
      ]),
    )
    await other.send(...['x', 'y', 'z'].flatMap((key) => [{ key }, { key }]), { id: 'unkeyed' })
    for (const subject of [one, other]) {
      const [held, ...handled] = (await subject.receive()).filter(({ message }) => message.id !== 'unkeyed')
      for (const received of handled) await subject.queue.delete(received)
      await subject.queue.changeVisibility(held!, 60_000)
    }
    // One key of each queue has its first message in flight: its second one must go on waiting.
    expect([await garbage.handled(one.queue.name), await garbage.visible(one.queue.name)]).toEqual([4, 0])
    const { handled: found } = await connectedPortsOf('test', root.database).inspection().collectable(0)
    expect(found).toEqual({ count: 6, atLeast: false })
    const gc = createGarbageCollector({ database: root.database, batchSize: 2, pauseMs: 0 })
    const progress: Progress[] = []
    const collected = await gc.runOnce({ onProgress: (soFar) => progress.push(soFar) })
    expect(collected).toMatchObject({ handled: 6, complete: true, failures: 0, deadLetters: 0 })
    const steps = progress.map(({ handled }, n) => handled - (progress[n - 1]?.handled ?? 0))
    expect(Math.max(...steps)).toBe(2)
    for (const { queue } of [one, other]) expect(await garbage.handled(queue.name)).toBe(0)
    expect(await garbage.visible(one.queue.name)).toBe(4)
    const ids = idsOf(await one.receive())
    expect(ids.length).toBe(4)
    expect(ids.every((id) => id.endsWith('second'))).toBe(true)
    expect(await other.receive()).toHaveLength(2)
    expect(await gc.runOnce()).toMatchObject({ handled: 0 })
  })

  test('G3 a collector skips a shard that a receiver has locked, and removes the rest', async () => {
    const subject = new QueueUnderTest(target, root)
    const elsewhere = 'k'
    expect(shardOf(elsewhere)).not.toBe(shardOf(KEYS[0]))
    await subject.send({ key: KEYS[0]! }, { key: KEYS[1]! }, { key: elsewhere })
    for (const received of await subject.receive()) await subject.queue.delete(received)
    const receiver = await root.begin()
    const name = `queue/${subject.queue.name}/03`
    await receiver.exec(`select name from ${garbage.table('leases')} where name = '${name}' for update`)
    const gc = createGarbageCollector({ database: root.database })
    expect(await gc.runOnce()).toMatchObject({ handled: 1, complete: true, failures: 0, timeouts: 0 })
    expect(await garbage.handled(subject.queue.name)).toBe(2)
    await receiver.rollback()
    expect(await gc.runOnce()).toMatchObject({ handled: 2 })
  })
})
