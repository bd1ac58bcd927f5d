import { expect, test } from 'vitest'
import { portsKey } from '@txbox/core'
import { QueueUnderTest, idsOf, sortedIds } from '../../support/subjects/queue-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))
/** Beyond 2^53 two neighboring places are the same number to JavaScript. */
const PLACE = 9_007_199_254_740_992n

/** Messages of the keys a, a, b and two without a key, whose places follow `PLACE`. */
async function sent(): Promise<{ subject: QueueUnderTest; ids: readonly string[] }> {
  const subject = new QueueUnderTest(target, root)
  await target.sql(`delete from ${subject.table}`)
  await target.sql(
    target.engine === 'postgres'
      ? `alter table ${subject.table} alter column place restart with ${PLACE}`
      : `alter table ${subject.table} auto_increment = ${PLACE}`,
  )
  const ids = await subject.sendTogether([{ key: 'a' }, { key: 'a' }, { key: 'b' }, {}, {}])
  return { subject, ids }
}

test('Q2 Q7 Q9 places beyond 2^53 are exact: each call with a receipt changes its own message only', async () => {
  const { subject, ids } = await sent()
  const [a1, a2, b, c, d] = ids
  const received = await subject.receive({ attemptId: 'x' })
  expect(sortedIds(idsOf(received))).toEqual(sortedIds([a1, b, c, d]))
  const again = await subject.receive({ attemptId: 'x' })
  expect(again.map(({ receipt }) => receipt)).toEqual(received.map(({ receipt }) => receipt))
  const of = (id: string | undefined): (typeof received)[number] =>
    received.find(({ message }) => message.id === id)!
  await subject.queue.changeVisibility(of(c), 60_000)
  await subject.queue.bury(of(d), { error: 'never' })
  await subject.queue.release(of(b))
  const work = await root.begin()
  await subject.queue.delete(of(a1), { tx: work.tx })
  await work.commit()
  expect(sortedIds(await subject.drain())).toEqual(sortedIds([a2, b]))
  await subject.queue.delete(of(c))
  expect((await subject.queue.deadLetters.list()).map(({ id }) => id)).toEqual([d])
  expect(await subject.queue.deadLetters.redrive({ topic: subject.queue.name })).toHaveLength(1)
  expect(await subject.drain()).toEqual([d])
  expect(await subject.size()).toBe(0)
})

test('Q9 Q12 places beyond 2^53 are exact in calls for several messages, and in a purge', async () => {
  const { subject, ids } = await sent()
  const store = root.database[portsKey].queue({ statementTimeoutMs: 10_000 })
  const request = { queue: subject.queue.name, limit: 10, maxReceives: 10, remove: false, attempt: undefined }
  const received = await store.receive({ ...request, visibilityTimeoutMs: 60_000 })
  const places = received.map(({ place }) => place)
  expect(places.every((place) => place >= PLACE)).toBe(true)
  // The place of the second message of the key a, which waits.
  const first = received.find(({ key }) => key === 'a')!
  const next = { ...first, place: first.place + 1n }
  expect(await store.extend([next, first], 60_000)).toEqual([false, true])
  expect(await store.settle(undefined, [next])).toEqual([false])
  const [one, ...others] = received
  expect(await store.settle(undefined, others)).toEqual(others.map(() => true))
  expect(await subject.queue.purge()).toEqual({ removed: 1 })
  expect(await store.settle(undefined, [one!])).toEqual([true])
  expect(await subject.size()).toBe(0)
  expect(ids).toHaveLength(5)
})
