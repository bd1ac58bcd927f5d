import { connectedPortsOf } from '@txbox/core/internal'
import { GarbageCollectionError, createGarbageCollector } from '@txbox/gc'
import { expect, test } from 'vitest'
import { createCollectorWith } from '../../../packages/gc/dist/create-garbage-collector.js'
import { useGarbage } from '../../support/subjects/garbage.ts'
import { onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'
import { VersionBufferUnderTest } from '../../support/subjects/version-buffer-under-test.ts'

const DAY = 86_400

const target = useTarget()
const garbage = useGarbage(target)

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)

  test('G1 G2 dead letters of version buffers are removed batch by batch when they are older than their retention', async () => {
    const odd = ["it's\\", 'ö', 'B', 'b'].map((key) => ({ key, from: 2 ** 53 - 2, diedAgo: 40 * DAY }))
    await garbage.buffered(
      { key: 'k', from: 1, diedAgo: 31 * DAY },
      { key: 'k', from: 2, diedAgo: 29 * DAY },
      { key: 'k', from: 3 },
      { consumer: 'another', key: 'k', from: 4, diedAgo: 50 * DAY },
      ...odd,
    )
    const inspection = connectedPortsOf('test', root.database).inspection()
    expect(await inspection.collectable(30 * DAY * 1000)).toMatchObject({ bufferedDeadLetters: { count: 6 } })
    const gc = createGarbageCollector({ database: root.database, batchSize: 2, pauseMs: 0 })
    const progress: object[] = []
    const collected = await gc.runOnce({ onProgress: (soFar) => progress.push(soFar) })
    expect(collected).toMatchObject({ bufferedDeadLetters: 6, deadLetters: 0, complete: true, failures: 0 })
    expect(progress.at(-1)).toMatchObject({ bufferedDeadLetters: 6 })
    expect(await garbage.bufferedKeys()).toEqual(['k 2', 'k 3'])
    const never = createGarbageCollector({ database: root.database, deadLetterRetentionMs: Infinity })
    expect(await never.runOnce()).toMatchObject({ bufferedDeadLetters: 0, complete: true })
    const atOnce = createGarbageCollector({ database: root.database, deadLetterRetentionMs: 0 })
    expect(await atOnce.runOnce()).toMatchObject({ bufferedDeadLetters: 1 })
    expect(await garbage.bufferedKeys()).toEqual(['k 3'])
  })

  test('G1 a waiting message is never removed, and a removed dead letter can be delivered again', async () => {
    const subject = new VersionBufferUnderTest(target, root)
    await subject.deliver('k', 1)
    await subject.age(2 * DAY * 1000)
    await subject.deliver('k', 2)
    expect(subject.deadLetters.length).toBe(1)
    const gc = createGarbageCollector({ database: root.database, deadLetterRetentionMs: 0 })
    expect(await gc.runOnce()).toMatchObject({ bufferedDeadLetters: 1 })
    expect(await subject.buffer.deadLetters()).toEqual([])
    expect(await subject.stored()).toBe(1)
    expect(await subject.deliver('k', 1)).toMatchObject({ status: 'waiting' })
    expect(await subject.deliver('k', 0)).toMatchObject({ status: 'applied', followed: 2 })
    expect(await subject.applied('k')).toEqual(['0-1', '1-2', '2-3'])
    expect(await subject.stored()).toBe(0)
  })

  test('G2 each run sweeps the version buffers of the collector, each with its own maximum age', async () => {
    const [early, late] = [
      new VersionBufferUnderTest(target, root, { maxAgeMs: 60_000 }),
      new VersionBufferUnderTest(target, root, { maxAgeMs: 7 * DAY * 1000 }),
    ]
    for (const subject of [early, late]) {
      for (const key of ['a', 'b']) await subject.deliver(key, 1)
      await subject.age(3_600_000)
    }
    const without = createGarbageCollector({ database: root.database })
    expect(await without.runOnce()).toMatchObject({ swept: 0 })
    const gc = createGarbageCollector({
      database: root.database,
      versionBuffers: [early.buffer, late.buffer],
    })
    expect(await gc.runOnce()).toMatchObject({ swept: 2, bufferedDeadLetters: 0, complete: true })
    expect(early.deadLetters.map(({ reason }) => reason)).toEqual(['too-old', 'too-old'])
    expect(late.deadLetters).toEqual([])
    expect(await gc.runOnce()).toMatchObject({ swept: 0 })
  })

  test('G2 a sweep stops before the next key if the run is stopped', async () => {
    const stopping = new AbortController()
    const subject = new VersionBufferUnderTest(target, root, {
      maxAgeMs: 60_000,
      onDeadLetter: () => stopping.abort(),
    })
    for (const key of ['a', 'b', 'c']) await subject.deliver(key, 1)
    await subject.age(3_600_000)
    const gc = createGarbageCollector({ database: root.database, versionBuffers: [subject.buffer] })
    expect(await gc.runOnce({ signal: stopping.signal })).toMatchObject({ swept: 1, complete: false })
    expect((await subject.buffer.deadLetters()).length).toBe(1)
  })

  test('G2 a sweep that fails is tried again, and is one error after ten failures; all else is collected before', async () => {
    await garbage.buffered({ key: 'k', from: 1, diedAgo: 31 * DAY })
    let failures = 0
    const buffer = {
      async sweep(): Promise<{ deadLettered: number }> {
        failures += 1
        if (failures < 3 || failures > 4) throw new Error('of the buffer')
        return { deadLettered: 7 }
      },
    }
    const pauses = { delayMs: () => 20 }
    const gc = createCollectorWith(pauses, { database: root.database, versionBuffers: [buffer] })
    expect(await gc.runOnce()).toMatchObject({ swept: 7, failures: 2, bufferedDeadLetters: 1 })
    expect(await gc.runOnce()).toMatchObject({ swept: 7, failures: 0 })
    await expect(gc.runOnce()).rejects.toThrow(GarbageCollectionError)
  })
})
