import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { sortedIds } from '../../support/subjects/queue-under-test.ts'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { Gate } from '../../support/worlds/broker.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 16 })
const [one, other] = keysOfOneShard(2) as [string, string]
const TOMORROW = new Date(Date.now() + 86_400_000)

/** Makes scheduled messages suspects that are due, as if they had been in flight when their process died. */
async function suspect(subject: LocalUnderTest, ...ids: readonly (string | undefined)[]): Promise<void> {
  const isPostgres = target.engine === 'postgres'
  const now = isPostgres ? 'clock_timestamp()' : 'utc_timestamp(6)'
  for (const id of ids) {
    await target.sql(
      `update ${subject.table('local_parked')} set suspect = ${isPostgres ? 'true' : '1'}, deliver_at = null, due_at = ${now}
       where consumer = ? and id = ?`,
      [subject.parameterOf(), id],
    )
  }
}

test('L5 O9 suspects are handled one at a time, and each has one effect', async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish(
    ...Array.from({ length: 8 }, (_, n) => ({ key: `k${n}`, deliverAt: TOMORROW })),
  )
  let running = 0
  let most = 0
  await suspect(subject, ...ids)
  await subject.start('billing', async () => {
    running += 1
    most = Math.max(most, running)
    await sleep(20)
    running -= 1
  })
  await subject.settled()
  expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
  expect(most).toBe(1)
})

for (const fails of [false, true]) {
  test(`L4 L5 O9 the lease is taken while a suspect is handled, and its handler ${fails ? 'fails' : 'succeeds'} then: the next suspects are handled, by both processes`, async () => {
    const subject = new LocalUnderTest(target, root)
    const gate = new Gate()
    const [first, ...next] = await subject.publish(
      ...[one, other, 'b', 'c', 'd'].map((key) => ({ key, deliverAt: TOMORROW })),
    )
    await suspect(subject, first)
    await subject.start('billing', async (_tx, { id }) => {
      if (id !== first || subject.runsOf(id).length > 1) return
      await gate.pass()
      if (fails) throw new Error('after the lease was taken')
    })
    await gate.reached()
    const successor = target.open(mainKind(target), { max: 8 })
    onTestFinished(() => successor.close())
    const second = await subject.start('billing', () => undefined, {}, successor)
    // The former owner learns that it has lost its leases.
    await until(
      async () => {
        await outbox.expireLeases()
        await sleep(50)
        return subject.heardOf('lost').length > 0 || subject.heardOf('error').length > 0
      },
      () => subject.describe(),
    ).catch(() => undefined)
    gate.open()
    await until(
      async () => (await subject.effects(first)) === 1,
      () => subject.describe(),
    )
    await suspect(subject, next[0], next[1])
    await until(
      async () => (await subject.left()) === 2,
      async () => `two are left, not ${await subject.left()}: ${subject.describe()}`,
      15_000,
    )
    // The first process has all shards now.
    await second.stop()
    await suspect(subject, next[2], next[3])
    await subject.settled('billing', 15_000)
    expect((await subject.effectsInOrder()).toSorted()).toEqual(sortedIds([first, ...next]))
    expect(subject.violations).toEqual([])
  })
}

test('L4 L5 O9 a suspect whose row another transaction has locked is looked at again; the other suspects are handled then', async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish(...[one, other, 'b'].map((key) => ({ key, deliverAt: TOMORROW })))
  await suspect(subject, ...ids)
  const holder = await root.begin()
  await holder.exec(`select 1 from ${subject.table('local_parked')} where consumer = ? for update`, [
    subject.parameterOf(),
  ])
  await subject.start('billing')
  await sleep(1500)
  expect(subject.runs).toEqual([])
  await holder.rollback()
  await subject.settled('billing', 15_000)
  expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
})

test('L5 O9 suspects that fail, or take too long, are tried again, and others are handled', async () => {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish(...[one, other, 'b', 'c'].map((key) => ({ key, deliverAt: TOMORROW })))
  await suspect(subject, ...ids)
  await subject.start(
    'billing',
    async (_tx, { id }, { signal }) => {
      if (subject.runsOf(id).length > 1) return
      if (id === ids[0]) throw new Error('once')
      if (id === ids[1]) await new Promise((resolve) => signal.addEventListener('abort', resolve))
    },
    { handleTimeoutMs: 300 },
  )
  await subject.settled('billing', 15_000)
  expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
})

test('L4 L5 O9 leases that expire again and again while suspects are handled: none is stuck', async () => {
  const subject = new LocalUnderTest(target, root)
  const other = target.open(mainKind(target), { max: 10 })
  onTestFinished(() => other.close())
  for (const through of [root, other]) {
    await subject.start('billing', () => sleep(20), { leaseMs: 1000 }, through)
  }
  const ids: string[] = []
  for (let round = 0; round < 15; round += 1) {
    const next = await subject.publish(
      ...Array.from({ length: 6 }, (_, n) => ({ key: `k${n + round}`, deliverAt: TOMORROW })),
    )
    ids.push(...next)
    await suspect(subject, ...next)
    await outbox.expireLeases()
    await sleep(60)
    await outbox.expireLeases()
  }
  await subject.settled('billing', 15_000)
  expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
})
