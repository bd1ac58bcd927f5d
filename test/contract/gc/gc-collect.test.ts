import { describe, expect, test } from 'vitest'
import { connectedPortsOf } from '@txbox/core/internal'
import { createGarbageCollector, InvalidOptionError, SchemaError, type Collected } from '@txbox/gc'
import { postgres } from '@txbox/postgres'
import { useGarbage } from '../../support/subjects/garbage.ts'
import { InboxUnderTest } from '../../support/subjects/inbox-under-test.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { messagesOf, publishAll } from '../../support/subjects/relay-under-test.ts'
import { mainKind, onEachRoot, useRoot, useTarget } from '../../support/engines/target.ts'

const DAY = 86_400

const target = useTarget()
const garbage = useGarbage(target)
const outbox = useOutboxTarget(target)

onEachRoot(target, (kind) => {
  const root = useRoot(target, kind)

  test('G1 expired claims are removed with their results, and no others', async () => {
    const subject = new InboxUnderTest(target, root)
    for (const id of ['old', 'new']) await subject.process({ id })
    await target.expire(subject.consumer, 'old')
    const gc = createGarbageCollector({ database: root.database })
    expect(await gc.runOnce()).toMatchObject({ inbox: 1, deadLetters: 0, complete: true, failures: 0 })
    expect(await subject.claimedKeys()).toEqual(['new'])
    // A delivery with a removed claim is new again; a delivery with a remaining claim is a duplicate.
    expect(await subject.process({ id: 'old' })).toMatchObject({ status: 'processed' })
    expect(await subject.process({ id: 'new' })).toMatchObject({ status: 'duplicate' })
    expect(await gc.runOnce()).toMatchObject({ inbox: 0, deadLetters: 0 })
  })

  test('G1 dead letters are removed when they are older than their retention', async () => {
    await garbage.park(
      { id: 'a', diedAgo: 29 * DAY },
      { id: 'b', diedAgo: 31 * DAY },
      { id: 'c', diedAgo: 0 },
    )
    expect(await createGarbageCollector({ database: root.database }).runOnce()).toMatchObject({
      inbox: 0,
      deadLetters: 1,
    })
    expect(await garbage.parkedIds()).toEqual(['a', 'c'])
    const sooner = createGarbageCollector({ database: root.database, deadLetterRetentionMs: DAY * 1000 })
    expect(await sooner.runOnce()).toMatchObject({ deadLetters: 1 })
    expect(await garbage.parkedIds()).toEqual(['c'])
    const atOnce = createGarbageCollector({ database: root.database, deadLetterRetentionMs: 0 })
    expect(await atOnce.runOnce()).toMatchObject({ deadLetters: 1 })
  })

  test('G1 G2 records of redrives are removed batch by batch when they are older than the retention of dead letters', async () => {
    await garbage.park({ id: 'dead', diedAgo: DAY }, { id: 'put back', dueAgo: 100 * DAY })
    // One record of a message that still exists, and several records of one instant.
    const old = ['put back', "it's\\", 'ö', 'B', 'b'].map((id) => ({ id, ago: 40 * DAY }))
    // … and one that was redriven before, too.
    const before = ['older', 'dead'].map((id) => ({ id, ago: 50 * DAY }))
    await garbage.redriven({ id: 'dead', ago: 29 * DAY }, ...old, ...before)
    const gc = createGarbageCollector({ database: root.database, batchSize: 2, pauseMs: 0 })
    const progress: object[] = []
    const collected = await gc.runOnce({ onProgress: (soFar) => progress.push(soFar) })
    expect(collected).toMatchObject({ inbox: 0, deadLetters: 0, redrives: 7, complete: true, failures: 0 })
    expect(progress.slice(5, -3)).toEqual(
      [2, 4, 6, 7].map((redrives) => ({
        inbox: 0,
        deadLetters: 0,
        redrives,
        bufferedDeadLetters: 0,
        handled: 0,
      })),
    )
    expect(await garbage.redrivenIds()).toEqual(['dead'])
    expect(await garbage.parkedIds()).toEqual(['dead', 'put back'])
    const atOnce = createGarbageCollector({ database: root.database, deadLetterRetentionMs: 0 })
    expect(await atOnce.runOnce()).toMatchObject({ deadLetters: 1, redrives: 1 })
    expect(await garbage.redrivenIds()).toEqual([])
  })

  test('G1 G2 dead letters of local consumers and records of ended subscriptions are removed batch by batch', async () => {
    const ages = [29, 31, 40, 50].map((days) => days * DAY)
    for (const [n, ago] of ages.entries()) {
      await garbage.parkLocal({ id: `m${n}`, diedAgo: ago })
      await garbage.removed(`c${n}`, ago)
    }
    await garbage.parkLocal({ id: 'alive', dueAgo: 100 * DAY })
    const gc = createGarbageCollector({ database: root.database, batchSize: 2, pauseMs: 0 })
    const figures = { deadLetters: { count: 3 }, redrives: { count: 3 } }
    expect(
      await connectedPortsOf('test', root.database)
        .inspection()
        .collectable(30 * DAY * 1000),
    ).toMatchObject(figures)
    expect(await gc.runOnce()).toMatchObject({ deadLetters: 3, redrives: 3, complete: true, failures: 0 })
    expect(await garbage.localIds()).toEqual(['alive', 'm0'])
    expect(await garbage.removedConsumers()).toEqual(['c0'])
  })

  test('G1 with an infinite retention dead letters and records of redrives stay', async () => {
    await garbage.park({ id: 'a', diedAgo: 3650 * DAY })
    await garbage.redriven({ id: 'b', ago: 3650 * DAY })
    const gc = createGarbageCollector({ database: root.database, deadLetterRetentionMs: Infinity })
    expect(await gc.runOnce()).toMatchObject({ deadLetters: 0, redrives: 0, complete: true })
    expect(await garbage.parkedIds()).toEqual(['a'])
    expect(await garbage.redrivenIds()).toEqual(['b'])
  })

  test('G1 unsent, parked, scheduled and leased rows are never removed, however old they are', async () => {
    const ids = await publishAll(root, messagesOf('k', 3))
    await garbage.park(
      { id: 'head', key: 'k', dueAgo: 1000 * DAY },
      { id: 'waits', key: 'k' },
      { id: 'scheduled', dueAgo: -DAY, deliverAgo: -DAY },
      { id: 'overdue', dueAgo: 1000 * DAY, deliverAgo: 1000 * DAY },
    )
    const expired = target.engine === 'postgres' ? 'to_timestamp(0)' : "'1970-01-01'"
    await target.sql(
      `insert into ${garbage.table('leases')} (name, owner, expires_at) values ('x', 'y', ${expired})`,
    )
    const gc = createGarbageCollector({ database: root.database, deadLetterRetentionMs: 0 })
    expect(await gc.runOnce()).toMatchObject({ inbox: 0, deadLetters: 0 })
    expect((await outbox.backlog()).map((row) => row.id).toSorted()).toEqual(ids.toSorted())
    expect(await garbage.parkedIds()).toEqual(['head', 'waits', 'scheduled', 'overdue'])
    expect(await outbox.heldLeases()).toBe(1)
  })
})

describe('figures', () => {
  const root = useRoot(target, mainKind(target))

  test('a run reports its figures to its caller, to listeners, and in the table that status reads', async () => {
    await garbage.expiredClaims('c', 25)
    await garbage.park({ id: 'a', diedAgo: 31 * DAY })
    const gc = createGarbageCollector({ database: root.database, batchSize: 10, pauseMs: 0 })
    const heard: Collected[] = []
    const off = gc.on('collected', (collected) => heard.push(collected))
    const progress: object[] = []
    const before = await target.now()
    const collected = await gc.runOnce({ onProgress: (soFar) => progress.push(soFar) })
    expect(collected).toEqual({
      inbox: 25,
      deadLetters: 1,
      redrives: 0,
      bufferedDeadLetters: 0,
      handled: 0,
      swept: 0,
      batches: 11,
      timeouts: 0,
      failures: 0,
      durationMs: expect.any(Number),
      complete: true,
    })
    expect(heard).toEqual([collected])
    const none = { inbox: 0, deadLetters: 0, redrives: 0, bufferedDeadLetters: 0, handled: 0 }
    expect(progress).toEqual([
      { ...none, inbox: 10 },
      { ...none, inbox: 20 },
      { ...none, inbox: 25 },
      // Claims of dedup stores.
      { ...none, inbox: 25 },
      // Dead letters of the outbox, those of queues, those of local consumers, redrives, ended subscriptions, dead letters of
      // version buffers, and handled messages.
      ...Array.from({ length: 7 }, () => ({ ...none, inbox: 25, deadLetters: 1 })),
    ])
    const last = await garbage.lastCollection()
    expect([Number(last['inbox']), Number(last['dead_letters'])]).toEqual([25, 1])
    expect((last['finished_at'] as Date).getTime()).toBeGreaterThanOrEqual(before.getTime())
    off()
    await gc.runOnce()
    expect(heard.length).toBe(1)
  })

  test('an onProgress that throws changes nothing, and its error is reported', async () => {
    await garbage.expiredClaims('c', 3)
    const gc = createGarbageCollector({ database: root.database })
    const errors: unknown[] = []
    gc.on('error', ({ error }) => errors.push(error))
    const mistake = new Error('of the listener')
    const collected = await gc.runOnce({
      onProgress: () => {
        throw mistake
      },
    })
    expect(collected).toMatchObject({ inbox: 3, complete: true })
    expect(errors).toContain(mistake)
  })
})

describe('options', () => {
  const root = useRoot(target, mainKind(target))

  test.for([
    ['no database', {}],
    ['a database without connections', { database: postgres() }],
    ['an unknown option', { retention: 1 }],
    ['an empty batch', { batchSize: 0 }],
    ['a batch that is too large', { batchSize: 10_001 }],
    ['half a row', { batchSize: 1.5 }],
    ['an interval below a second', { intervalMs: 999 }],
    ['a negative pause', { pauseMs: -1 }],
    ['a negative retention', { deadLetterRetentionMs: -1 }],
    ['a retention that is no number', { deadLetterRetentionMs: NaN }],
    ['a signal that is none', { signal: {} }],
    ['version buffers that are none', { versionBuffers: [{}] }],
    ['a version buffer that is no list', { versionBuffers: { sweep: () => undefined } }],
  ] as const)('%s is refused when the collector is made', ([title, options]) => {
    const database = title.includes('database') ? {} : { database: root.database }
    expect(() => createGarbageCollector({ ...database, ...options } as never)).toThrow(InvalidOptionError)
  })

  test('an undefined option counts as left out', async () => {
    const gc = createGarbageCollector({ database: root.database, batchSize: undefined, signal: undefined })
    expect(await gc.runOnce({ signal: undefined, onProgress: undefined })).toMatchObject({ complete: true })
  })
})

describe('without tables', () => {
  const empty = useTarget({ migrated: false })
  const root = useRoot(empty, mainKind(empty))

  test('runOnce and start are refused with a SchemaError that names the command', async () => {
    const gc = createGarbageCollector({ database: root.database })
    await expect(gc.runOnce()).rejects.toThrow(SchemaError)
    await expect(gc.start()).rejects.toThrow(/npx txbox migrate/)
    await empty.migrate()
    await gc.start()
    await gc.stop()
  })
})
