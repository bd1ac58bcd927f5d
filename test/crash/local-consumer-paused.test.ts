import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { keysOfOneShard } from '../support/subjects/keys.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { Program } from '../support/worlds/program.ts'
import { LocalUnderTest } from '../support/subjects/local-under-test.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'
import type { LocalConsumerConfig } from './programs/local-consumer.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const kind = target.kinds.find(({ library }) => library !== 'kysely')!
const root = useRoot(target, kind, { max: 12 })
const [one, other] = keysOfOneShard(2) as [string, string]
const LEASE_MS = 2000
const HANDLE_TIMEOUT_MS = 5000

async function frozen(
  published: readonly { readonly key: string }[],
  options: Partial<LocalConsumerConfig>,
): Promise<{ subject: LocalUnderTest; ids: string[]; sleeper: Program }> {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish(...published)
  const config: LocalConsumerConfig = {
    ...{ url: outbox.url(), log: new DeliveryLog().file, consumer: subject.name() },
    ...{ leaseMs: LEASE_MS, handleTimeoutMs: HANDLE_TIMEOUT_MS, ...options },
  }
  const sleeper = new Program('local-consumer', config)
  if (options.fate === undefined) {
    await sleeper.reports('handling')
    // The effect is written, and the transaction is open.
    await until(
      async () => (await outbox.transactions()).length > 0,
      () => 'the transaction of the handler is open',
    )
    await sleep(50)
    sleeper.pause()
  }
  await sleeper.paused()
  return { subject, ids, sleeper }
}

test('L4 L1 a process that is frozen in a handler beyond its lease and goes on in time: its message has one effect, and no other process was at its key', async () => {
  const { subject, ids, sleeper } = await frozen([{ key: one }, { key: one }, { key: other }], {
    ...{ gated: true, concurrency: 1, handleTimeoutMs: 30_000 },
  })
  await subject.start('billing', () => undefined, { leaseMs: LEASE_MS, handleTimeoutMs: 30_000 })
  // The successor has the shard when another key is handled.
  await until(
    async () => (await subject.effects(ids[2])) === 1,
    () => subject.describe(),
  )
  await sleep(1500)
  expect(subject.runs.map(({ id }) => id)).toEqual([ids[2]])
  sleeper.resume()
  sleeper.say('go')
  await subject.settled()
  const effects = await subject.effectsInOrder()
  expect(effects.filter((id) => id !== ids[2])).toEqual(ids.slice(0, 2))
  await sleeper.kill()
})

test('L4 L1 a process that is frozen in a handler for longer than handleTimeoutMs: the server frees its message, and its late work commits nothing', async () => {
  const { subject, ids, sleeper } = await frozen([{ key: one }, { key: one }, { key: other }], {
    ...{ gated: true, concurrency: 1 },
  })
  await subject.start('billing', () => undefined, { leaseMs: LEASE_MS, handleTimeoutMs: HANDLE_TIMEOUT_MS })
  // Nobody wakes the frozen process: only the server can end its transaction.
  await subject.settled('billing', 40_000)
  const effects = await subject.effectsInOrder()
  expect(effects.toSorted()).toEqual(ids.toSorted())
  expect(effects.filter((id) => id !== ids[2])).toEqual(ids.slice(0, 2))
  const late = await subject.publish({ key: one }, { key: other })
  sleeper.resume()
  sleeper.say('go')
  await subject.settled()
  await sleep(1000)
  const all = await subject.effectsInOrder()
  expect(all.toSorted()).toEqual([...ids, ...late].toSorted())
  expect(await subject.deadLetters.list({ consumer: subject.name() })).toEqual([])
  await sleeper.kill()
}, 120_000)

const STEPS = {
  'before it locks its message': { statement: 'for update', nth: 1, phase: 'before' },
  'when its message is locked': { statement: 'for update', nth: 1, phase: 'answered' },
  // On PostgreSQL, COMMIT is sent together with the removal, which is no statement of the client.
  ...(target.engine === 'postgres'
    ? {}
    : { 'before COMMIT': { statement: '^commit', nth: 1, phase: 'before' } as const }),
  'when it has written its effect': { point: 'after the effect', nth: 1 },
} as const
for (const [when, step] of Object.entries(STEPS)) {
  test(`L4 L1 a process is stopped ${when}, beyond its lease, and goes on: each message has one effect, in the order of its key`, async () => {
    const keys = [one, one, other, one, other]
    const { subject, ids, sleeper } = await frozen(
      keys.map((key) => ({ key })),
      { concurrency: 2, fate: { step, signal: 'SIGSTOP' } },
    )
    await subject.start('billing', () => sleep(20), { leaseMs: LEASE_MS, handleTimeoutMs: HANDLE_TIMEOUT_MS })
    await sleep(LEASE_MS * 1.5)
    sleeper.resume()
    await subject.settled('billing', 40_000)
    const effects = await subject.effectsInOrder()
    expect(effects.toSorted()).toEqual(ids.toSorted())
    for (const key of [one, other]) {
      const ofKey = ids.filter((_, n) => keys[n] === key)
      expect(effects.filter((id) => ofKey.includes(id))).toEqual(ofKey)
    }
    expect(await subject.deadLetters.list({ consumer: subject.name() })).toEqual([])
    await sleeper.kill()
  }, 120_000)
}
