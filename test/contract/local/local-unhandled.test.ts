import { expect, test } from 'vitest'
import { sortedIds } from '../../support/subjects/queue-under-test.ts'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 16 })
const BILLING = { made: ['billing'], renamed: ['billing'] }

/** Resolves when a message is parked because nobody handles its type. */
async function parked(subject: LocalUnderTest, ...ids: readonly (string | undefined)[]): Promise<void> {
  await until(
    async () => {
      const rows = await subject.parked()
      return ids.every((id) => rows.some((row) => row['id'] === id))
    },
    async () => `parked: ${JSON.stringify(await subject.parked())}, ${subject.describe()}`,
  )
}

test('L6 a message whose type has no handler waits, parked and uncounted, with its key; other keys go on', async () => {
  const subject = new LocalUnderTest(target, root, BILLING)
  const ids = await subject.publish(
    { type: 'renamed', key: 'a' },
    { key: 'a' },
    { key: 'b' },
    { type: 'renamed' },
    {},
  )
  await subject.start('billing')
  await subject.hears('handled', 2)
  await parked(subject, ids[0], ids[3])
  expect((await subject.effectsInOrder()).toSorted()).toEqual(sortedIds([ids[2], ids[4]]))
  const [later] = await subject.publish({ key: 'b' })
  await subject.hears('handled', 3)
  expect(await subject.effects(later)).toBe(1)
  expect((await subject.parked()).map(({ attempts, dead }) => [attempts, Number(dead)])).toEqual(
    (await subject.parked()).map(() => [0, 0]),
  )
  expect(subject.runs.map(({ id }) => id)).not.toContain(ids[1])
  expect(subject.heardOf('dead-lettered')).toEqual([])
})

test('L6 a consumer that starts with a handler handles what waited for it at once, in the order of the keys', async () => {
  const subject = new LocalUnderTest(target, root, BILLING)
  const ids = await subject.publish(
    { type: 'renamed', key: 'a' },
    { key: 'a' },
    { type: 'renamed', key: 'a' },
    { key: 'b' },
    { type: 'renamed', key: 'b' },
  )
  const old = await subject.start('billing')
  await parked(subject, ids[0], ids[4])
  await old.stop()
  const begunAt = performance.now()
  await subject.start('billing', { made: () => undefined, renamed: () => undefined })
  await subject.settled()
  // The usual pause between two tries is half a minute.
  expect(performance.now() - begunAt).toBeLessThan(5000)
  const effects = await subject.effectsInOrder()
  expect(effects.filter((id) => ids.slice(0, 3).includes(id))).toEqual(ids.slice(0, 3))
  expect(effects.filter((id) => ids.slice(3).includes(id))).toEqual(ids.slice(3))
  expect(subject.runs.every(({ deliveries }) => deliveries === 1)).toBe(true)
})

test('L6 tries without a handler, however many, count no attempt', async () => {
  const subject = new LocalUnderTest(target, root, BILLING)
  const [id] = await subject.publish({ type: 'renamed', key: 'a' })
  await subject.start('billing', () => undefined, { retry: { attempts: 2, delayMs: () => 10 } })
  await parked(subject, id)
  const now = target.engine === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)'
  for (let time = 0; time < 4; time += 1) {
    await subject.sql(`update ${subject.table('local_parked')} set due_at = ${now} where consumer = ?`)
    await until(
      async () => {
        const [row] = await subject.sql(
          `select count(*) as n from ${subject.table('local_parked')} where consumer = ? and due_at > ${now}`,
        )
        return Number(row?.['n']) === 1
      },
      async () => `it was tried, and waits again: ${JSON.stringify(await subject.parked())}`,
    )
  }
  expect(await subject.parked()).toMatchObject([{ id, attempts: 0 }])
  expect(subject.heardOf('dead-lettered')).toEqual([])
})

test('L6 a message of a type without a handler that was tried before keeps its count', async () => {
  const subject = new LocalUnderTest(target, root)
  const [id] = await subject.publish({ key: 'a' })
  const failing = await subject.start(
    'billing',
    () => {
      throw new Error('failed')
    },
    { retry: { attempts: 9, delayMs: () => 300 } },
  )
  await subject.hears('retried', 2)
  await failing.stop()
  const without = await subject.start('billing', { other: () => undefined })
  await until(
    async () => {
      const [row] = await subject.sql(
        `select count(*) as n from ${subject.table('local_parked')} where consumer = ? and unhandled`,
      )
      return Number(row?.['n']) === 1
    },
    async () => JSON.stringify(await subject.parked()),
  )
  await without.stop()
  await subject.start('billing')
  await subject.settled()
  expect(await subject.effects(id)).toBe(1)
  const deliveries = subject.runsOf(id).map((run) => run.deliveries)
  expect(deliveries).toEqual(deliveries.map((_, n) => n + 1))
})

test('L6 the type without a handler is reported once by a warning that names it', async () => {
  const subject = new LocalUnderTest(target, root, BILLING)
  const lines: string[] = []
  const log = (...values: unknown[]): void => void lines.push(JSON.stringify(values))
  const logger = { debug: log, info: log, warn: log, error: log }
  await subject.start('billing', () => undefined, { logger })
  const ids = await subject.publish({ type: 'renamed', key: 'a' }, { type: 'renamed', key: 'b' })
  await parked(subject, ...ids)
  const warnings = (): readonly string[] => lines.filter((line) => line.includes('renamed'))
  await until(
    async () => warnings().length > 0,
    () => lines.join('\n'),
  )
  await parked(subject, ...ids, ...(await subject.publish({ type: 'renamed', key: 'c' })))
  expect(warnings()).toHaveLength(1)
})

test('L6 a message without a type at a consumer that is subscribed to nothing of the kind stays where it is', async () => {
  const subject = new LocalUnderTest(target, root)
  const [id] = await subject.publish({ key: 'a' })
  // The row was written by another version of the service.
  await subject.sql(`update ${subject.table('local_outbox')} set type = null where consumer = ?`)
  await subject.start('billing')
  await parked(subject, id)
  expect(subject.runs).toEqual([])
  expect(await subject.parked()).toMatchObject([{ id, attempts: 0 }])
})
