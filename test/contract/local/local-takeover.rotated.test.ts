import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { PermanentError } from '@txbox/consumer'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { mainKind, useRoot, useTarget, type Root } from '../../support/engines/target.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { Gate } from '../../support/worlds/broker.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(target, mainKind(target), { max: 12 })
const [one, other] = keysOfOneShard(2) as [string, string]

function otherRoot(): Root {
  const opened = target.open(mainKind(target), { max: 8 })
  onTestFinished(() => opened.close())
  return opened
}

/** The leases of the shards of a consumer that are held now, by owner. */
async function owners(subject: LocalUnderTest, consumer = 'billing'): Promise<Map<string, number>> {
  const isPostgres = target.engine === 'postgres'
  const leases = target.outboxTable.replace(/outbox$/, 'leases')
  const prefix = `local/${subject.name(consumer)}/`
  const rows = await target.sql(
    isPostgres
      ? `select owner, count(*)::int as n from ${leases} where starts_with(name, ?) and owner is not null group by owner`
      : `select cast(owner as char) as owner, count(*) as n from ${leases}
         where left(name, ${prefix.length}) = ? and owner is not null group by owner`,
    [prefix],
  )
  return new Map(rows.map(({ owner, n }) => [String(owner), Number(n)]))
}

/** Lets the leases of an owner expire, until another one has the shard of the keys. */
async function passShardOn(subject: LocalUnderTest, former: string): Promise<void> {
  const [name, text] =
    target.engine === 'postgres' ? ['name', 'owner'] : ['cast(name as char)', 'cast(owner as char)']
  const leases = target.outboxTable.replace(/outbox$/, 'leases')
  const ownerNow = async (): Promise<string> => {
    const [row] = await target.sql(
      `select ${text} as owner from ${leases} where ${name} = ? and owner is not null`,
      [`local/${subject.name()}/03`],
    )
    return row === undefined ? former : String(row['owner'])
  }
  await until(
    async () => {
      await outbox.expireLeases(former)
      await sleep(50)
      return (await ownerNow()) !== former
    },
    async () => `another owner has the shard: ${JSON.stringify([...(await owners(subject))])}`,
  )
}

/**
 * Two consumers of one name in two pools, of which the first one is in a handler when all its leases expire, and the second one
 * takes over.
 */
async function takenOver(): Promise<{
  subject: LocalUnderTest
  ids: readonly string[]
  gate: Gate
}> {
  const subject = new LocalUnderTest(target, root)
  const gate = new Gate()
  const ids = await subject.publish({ key: one }, { key: one }, { key: one })
  await subject.start('billing', (_tx, { id }) => (id === ids[0] ? gate.pass() : undefined))
  await gate.reached()
  const [former] = [...(await owners(subject)).keys()]
  await subject.start('billing', () => undefined, {}, otherRoot())
  await passShardOn(subject, former!)
  return { subject, ids, gate }
}

test('L4 a handler that runs while its lease is taken keeps its message and its key: nobody else handles them, and other keys go on', async () => {
  const { subject, ids, gate } = await takenOver()
  const [free] = await subject.publish({ key: other })
  await until(
    async () => (await subject.effects(free)) === 1,
    () => subject.describe(),
  )
  await sleep(1500)
  expect(subject.runs.filter(({ key }) => key === one).map(({ id }) => id)).toEqual([ids[0]])
  gate.open()
  await subject.settled()
  const effects = await subject.effectsInOrder()
  expect(effects.filter((id) => id !== free)).toEqual(ids)
  expect(subject.violations).toEqual([])
})

test('L4 after a take-over, a message that committed late waits for a later one of its key that the former owner still handles', async () => {
  const subject = new LocalUnderTest(target, root)
  const gate = new Gate()
  const late = await root.begin()
  const first = await subject.publishIn(late, { key: one })
  const [second] = await subject.publish({ key: one })
  await subject.start('billing', (_tx, { id }) => (id === second ? gate.pass() : undefined))
  await gate.reached()
  const [former] = [...(await owners(subject)).keys()]
  await subject.start('billing', () => undefined, {}, otherRoot())
  await passShardOn(subject, former!)
  await late.commit()
  const [free] = await subject.publish({ key: other })
  await until(
    async () => (await subject.effects(free)) === 1,
    () => subject.describe(),
  )
  await sleep(1500)
  expect(subject.runsOf(first)).toEqual([])
  gate.open()
  await subject.settled()
  expect((await subject.effectsInOrder()).filter((id) => id !== free)).toEqual([second, first])
  expect(subject.violations).toEqual([])
})

test('L4 L5 after a take-over, a redriven message waits for a later one of its key that the former owner still handles', async () => {
  const subject = new LocalUnderTest(target, root)
  const gate = new Gate()
  const [dead, second] = await subject.publish({ key: one }, { key: one })
  await subject.start('billing', (_tx, { id }) => {
    if (id === dead && subject.runsOf(id).length === 1) throw new PermanentError('never')
    return id === dead ? undefined : gate.pass()
  })
  await gate.reached()
  const [former] = [...(await owners(subject)).keys()]
  await subject.start('billing', () => undefined, {}, otherRoot())
  await passShardOn(subject, former!)
  expect((await subject.deadLetters.redrive({ ids: [dead!] })).map(({ id }) => id)).toEqual([dead])
  await sleep(1500)
  expect(subject.runsOf(dead).length).toBe(1)
  gate.open()
  await subject.settled()
  expect(await subject.effectsInOrder()).toEqual([second, dead])
  expect(subject.violations).toEqual([])
})

test('L4 L1 a handler that fails after its lease was taken leaves its message to the new owner', async () => {
  const subject = new LocalUnderTest(target, root)
  const gate = new Gate()
  const ids = await subject.publish({ key: one }, { key: one })
  await subject.start('billing', async (_tx, { id }) => {
    if (id !== ids[0] || subject.runsOf(id).length > 1) return
    await gate.pass()
    throw new Error('after the lease was taken')
  })
  await gate.reached()
  const [former] = [...(await owners(subject)).keys()]
  await subject.start('billing', () => undefined, {}, otherRoot())
  await passShardOn(subject, former!)
  gate.open()
  await subject.settled()
  expect(await subject.effectsInOrder()).toEqual(ids)
  expect(subject.runsOf(ids[0]).at(-1)!.deliveries).toBeLessThanOrEqual(2)
  expect(await subject.deadLetters.list({ consumer: subject.name() })).toEqual([])
})

test('L4 leases that expire again and again: every message has one effect, in order, and no two of a key at once', async () => {
  const subject = new LocalUnderTest(target, root)
  const roots = [root, otherRoot(), otherRoot()]
  for (const through of roots) {
    await subject.start('billing', () => sleep(15), { concurrency: 3, leaseMs: 3000 }, through)
  }
  let isOver = false
  const expiring = (async () => {
    while (!isOver) {
      await outbox.expireLeases()
      await sleep(40)
    }
  })()
  const sent: { id: string; key: string }[] = []
  for (let round = 0; round < 10; round += 1) {
    const keys = [one, other, 'b', one, 'c', other]
    const ids = await subject.publish(...keys.map((key) => ({ key })))
    sent.push(...ids.map((id, n) => ({ id, key: keys[n]! })))
    await sleep(60)
  }
  isOver = true
  await expiring
  await subject.settled()
  const effects = await subject.effectsInOrder()
  for (const key of new Set(sent.map((message) => message.key))) {
    const ids = sent.filter((message) => message.key === key).map(({ id }) => id)
    expect(
      effects.filter((id) => ids.includes(id)),
      key,
    ).toEqual(ids)
  }
  expect(effects.length).toBe(sent.length)
  expect(subject.violations).toEqual([])
  expect(await subject.deadLetters.list({ consumer: subject.name() })).toEqual([])
})

test('L4 processes share the shards of a consumer, and a process that stops hands its shards over at once', async () => {
  const subject = new LocalUnderTest(target, root)
  const first = await subject.start('billing')
  const second = await subject.start('billing', () => undefined, {}, otherRoot())
  await until(
    async () => {
      const shares = [...(await owners(subject)).values()]
      return shares.length === 2 && shares.every((shards) => shards === 8)
    },
    async () => `two owners with 8 shards each: ${JSON.stringify([...(await owners(subject))])}`,
  )
  await first.stop()
  const ids = await subject.publish(...Array.from({ length: 32 }, (_, n) => ({ key: `k${n}` })))
  await subject.hears('handled', 32, 'billing', 5000)
  expect((await subject.effectsInOrder()).toSorted()).toEqual(ids.toSorted())
  await second.stop()
  expect(await owners(subject)).toEqual(new Map())
})
