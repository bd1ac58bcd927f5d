import { setTimeout as pause } from 'node:timers/promises'
import { expect, inject, onTestFinished, test } from 'vitest'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'
import { LocalUnderTest } from '../support/subjects/local-under-test.ts'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { Program } from '../support/worlds/program.ts'
import { randomFrom } from '../support/worlds/random.ts'
import type { LocalConsumerConfig } from './programs/local-consumer.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(
  target,
  target.kinds.find(({ library }) => library !== 'kysely')!,
  { max: 8 },
)
/** To repeat a run: TXBOX_TEST_SEED=1. What happens at the same time differs between runs of one seed. */
const SEED = Number(process.env['TXBOX_TEST_SEED'] ?? Math.trunc(Math.random() * 2 ** 31))
const MESSAGES = Number(process.env['TXBOX_TEST_MESSAGES'] ?? (inject('tier') === 'all' ? 6000 : 2000))
const KEYS = 200
const PROCESSES = 3

test(`L2 L4 L8 at least once, a backlog of ${KEYS} keys in all shards, while processes are killed and frozen and lose their leases: nothing is lost, and each message is first handled in the order of its key, seed ${SEED}`, async () => {
  const subject = new LocalUnderTest(target, root)
  const random = randomFrom(SEED)
  const keys = Array.from({ length: MESSAGES }, () => `key-${Math.floor(random() * KEYS)}`)
  const ids: string[] = []
  for (let n = 0; n < MESSAGES; n += 500) {
    ids.push(...(await subject.publishTogether(keys.slice(n, n + 500).map((key) => ({ key })))))
  }
  const config: LocalConsumerConfig = {
    ...{ url: outbox.url(), log: new DeliveryLog().file, consumer: subject.name() },
    ...{ atLeastOnce: true, concurrency: 40, leaseMs: 1000, attempts: 1000 },
  }
  const programs = Array.from({ length: PROCESSES }, () => new Program('local-consumer', config))
  onTestFinished(async () => void (await Promise.all(programs.map((program) => program.kill()))))
  let [kills, freezes] = [0, 0]
  const until = performance.now() + 20_000
  while (performance.now() < until && (await subject.left()) > 0) {
    await pause(600 * (0.5 + random()))
    await outbox.expireLeases()
    const place = Math.floor(random() * PROCESSES)
    if (random() < 0.6) {
      await programs[place]!.kill()
      programs[place] = new Program('local-consumer', config)
      kills += 1
    } else {
      programs[place]!.pause()
      await pause(1300)
      programs[place]!.resume()
      freezes += 1
    }
  }
  await subject.settled('billing', 60_000)
  const first = new Map<string, number>()
  for (const [at, id] of (await subject.effectsInOrder()).entries()) if (!first.has(id)) first.set(id, at)
  expect(ids.filter((id) => !first.has(id))).toEqual([])
  const last = new Map<string, string>()
  const misplaced = ids.filter((id, n) => {
    const before = last.get(keys[n]!)
    last.set(keys[n]!, id)
    return before !== undefined && first.get(before)! > first.get(id)!
  })
  expect(misplaced).toEqual([])
  expect(first.size).toBe(MESSAGES)
  expect(kills + freezes).toBeGreaterThan(0)
  expect(await subject.deadLetters.list({ consumer: subject.name() })).toEqual([])
}, 180_000)
