import { beforeEach, expect, onTestFinished, test } from 'vitest'
import type { BoundedCount, InspectionStore } from '@txbox/core/ports'
import { connectedPortsOf, observeDatabase } from '@txbox/core/internal'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { GaugesUnderTest } from '../../support/subjects/gauges-under-test.ts'
import { useOperatedConsumers } from '../../support/subjects/operated-consumers.ts'

const target = useTarget()
const consumers = useOperatedConsumers(target)
const root = useRoot(target, mainKind(target))
const isPostgres = target.engine === 'postgres'
const ago = (seconds: number): string => consumers.ago(seconds)
beforeEach(async () => void (await target.sql(`delete from ${consumers.table('outbox')}`)))

function inspection(): InspectionStore {
  return connectedPortsOf('test', root.database).inspection()
}

type Columns = Readonly<Record<string, string>>

/** Every kind of row that a relay, a producer or an operator leaves in a table of parked messages: id, kind, columns. */
function rows(): readonly (readonly [id: string, kind: 'retry' | 'key' | 'scheduled' | 'dead', Columns])[] {
  const keyed = { [isPostgres ? 'key' : '`key`']: "'k'", order_key: "'k'" }
  const later = { deliver_at: ago(-500), due_at: ago(-500) }
  return [
    ['refused', 'retry', { attempts: '2', due_at: ago(-30), error: "'no'", ...keyed }],
    ['refused-without-a-key', 'retry', { attempts: '1', due_at: ago(-30) }],
    ['refused-without-being-counted', 'retry', { due_at: ago(-30), error: "'away'" }],
    ['redriven', 'retry', { due_at: ago(1), redriven_at: ago(1) }],
    ['scheduled-and-refused', 'retry', { deliver_at: ago(60), due_at: ago(-30), attempts: '1' }],
    ['behind', 'key', keyed],
    ['refused-before-and-behind', 'key', { attempts: '1', error: "'no'", ...keyed }],
    ['scheduled', 'scheduled', later],
    ['scheduled-for-another-day', 'scheduled', { ...later, deliver_at: ago(-100_000) }],
    ['scheduled-and-due', 'scheduled', { deliver_at: ago(5), due_at: ago(5) }],
    ['dead', 'dead', { dead_at: ago(10), attempts: '7' }],
    ['scheduled-and-dead', 'dead', { dead_at: ago(10), deliver_at: ago(60), attempts: '7' }],
  ]
}

async function insertParked(id: string, columns: Columns): Promise<void> {
  const all = {
    shard: '0',
    topic: "'t'",
    content_type: "'t'",
    headers: "'{}'",
    created_at: ago(100),
    ...columns,
  }
  await target.sql(
    `insert into ${consumers.table('parked')} (id, payload, ${Object.keys(all).join(', ')})
     values ('${id}', 'x', ${Object.values(all).join(', ')})`,
  )
}

const count = (n: number, atLeast = false): BoundedCount => ({ count: n, atLeast })

test('parked messages are counted by what they wait for: another attempt, a message of their key, their time', async () => {
  for (const [id, , columns] of rows()) await insertParked(id, columns)
  const figures = await inspection().status()
  expect(figures).toMatchObject({
    parked: count(7),
    refused: count(5),
    behind: count(2),
    scheduled: count(3),
    dead: count(2),
  })
})

test('those of a local consumer are counted alike, and no others', async () => {
  for (const [id, , columns] of rows()) await consumers.parked('b', id, columns)
  await consumers.parked('a', 'other', { due_at: ago(-5) })
  await consumers.parked('c', 'without-a-handler', { due_at: ago(-5), unhandled: isPostgres ? 'true' : '1' })
  const [a, b, c] = await inspection().localConsumers(10)
  expect(b).toMatchObject({
    parked: count(7),
    refused: count(5),
    behind: count(2),
    scheduled: count(3),
    dead: count(2),
  })
  for (const other of [a, c])
    expect(other).toMatchObject({ parked: count(1), refused: count(1), behind: count(0) })
})

test('without parked messages all counts are 0', async () => {
  await consumers.subscribe('a', 't')
  const none = { parked: count(0), refused: count(0), behind: count(0), scheduled: count(0), dead: count(0) }
  expect(await inspection().status()).toMatchObject(none)
  expect(await inspection().localConsumers(1)).toMatchObject([{ name: 'a', ...none }])
})

test('beyond the limit, the messages that have been due the longest are counted, and the counts are marked', async () => {
  await insertParked('first', { created_at: ago(300), due_at: ago(-30), attempts: '1', order_key: "'k'" })
  for (let n = 0; n < 5; n++) await insertParked(`behind-${n}`, { order_key: "'k'" })
  for (let n = 0; n < 5; n++) await insertParked(`later-${n}`, { deliver_at: ago(-60), due_at: ago(-60) })
  expect(await inspection().status(3)).toMatchObject({
    parked: count(3, true),
    refused: count(1, true),
    behind: count(2, true),
    scheduled: count(3, true),
  })
  expect(await inspection().status(20)).toMatchObject({
    parked: count(6),
    refused: count(1),
    behind: count(5),
    scheduled: count(5),
  })
})

test('the gauges have the reasons, and the age of the oldest message that waits for a local consumer', async () => {
  for (const [id, , columns] of rows()) {
    await insertParked(id, columns)
    await consumers.parked('b', id, columns)
  }
  await consumers.waiting('b', 'waits', { created_at: ago(200), shard: '7' })
  await consumers.waiting('b', 'waits-not-so-long', { created_at: ago(50), shard: '0' })
  await consumers.subscribe('c', 't')
  const telemetry = new GaugesUnderTest()
  const failed = (_: unknown, error: unknown): void => expect(error).toBeUndefined()
  onTestFinished(observeDatabase(telemetry, inspection(), { everyMs: 0, failed }))
  const parked = (attributes: object): Promise<unknown> =>
    telemetry.value('txbox.outbox.parked.messages', attributes)
  for (const about of [{}, { consumer: 'b' }]) {
    expect(await parked({ ...about, reason: 'retry' })).toBe(5)
    expect(await parked({ ...about, reason: 'key' })).toBe(2)
    expect(await parked({ ...about, reason: 'scheduled' })).toBe(3)
  }
  expect(await parked({ consumer: 'c', reason: 'key' })).toBe(0)
  const age = (attributes: object): Promise<number | undefined> =>
    telemetry.value('txbox.outbox.backlog.age', attributes)
  expect(Math.floor((await age({ consumer: 'b' }))! / 10)).toBe(20)
  expect([await age({ consumer: 'c' }), await age({})]).toEqual([0, 0])
})
