import { expect, inject, test } from 'vitest'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { LocalStorm } from '../support/subjects/local-storm.ts'
import { LocalUnderTest } from '../support/subjects/local-under-test.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useRoot, useTarget } from '../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const root = useRoot(
  target,
  target.kinds.find(({ library }) => library !== 'kysely')!,
  { max: 10 },
)
/** To repeat a run: TXBOX_TEST_SEED=1. What happens at the same time differs between runs of one seed. */
const SEED = Number(process.env['TXBOX_TEST_SEED'] ?? Math.trunc(Math.random() * 2 ** 31))
const MESSAGES = Number(process.env['TXBOX_TEST_MESSAGES'] ?? (inject('tier') === 'all' ? 1500 : 450))
const PROCESSES = 5

test(`L1 L2 L4 L5 L9 five processes that are killed, frozen, and lose their leases again and again, late commits, rollbacks, slow and failing handlers: no message is lost, doubled, out of order or stuck, and no two of a key run at once, seed ${SEED}`, async () => {
  const subject = new LocalUnderTest(target, root)
  const config = {
    ...{ url: outbox.url(), log: new DeliveryLog().file, consumer: subject.name() },
    ...{ concurrency: 4, leaseMs: 1000, handleTimeoutMs: 5000 },
  }
  const storm = new LocalStorm(subject, config, SEED)
  const sizes = { messages: MESSAGES, processes: PROCESSES, killEveryMs: 1200 }
  await storm.run(root, sizes, () => outbox.expireLeases())
  expect(await storm.violations()).toEqual([])
  expect(storm.sent.length).toBeGreaterThanOrEqual(MESSAGES)
  expect(Math.min(storm.kills, storm.freezes)).toBeGreaterThan(0)
  expect(await subject.deadLetters.list({ consumer: subject.name() })).toEqual([])
  const effects = new Set(await subject.effectsInOrder())
  expect(storm.rolledBack.filter((id) => effects.has(id))).toEqual([])
}, 180_000)
