import * as fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { Broker, rejected, type Respond } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { outboxOf, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { kindsOfRoots, useTarget, type OpenTransaction, type Root } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
/** For a long search: TXBOX_TEST_SEED=1 TXBOX_TEST_RUNS=300. */
const SEED = Number(process.env['TXBOX_TEST_SEED'] ?? 4711)
const RUNS = Number(process.env['TXBOX_TEST_RUNS'] ?? 8)
/** Three keys of one shard, two keys of other shards, and no key. */
const KEYS = [...keysOfOneShard(3), 'b', 'c', undefined]

/** Publishes some messages in one call. */
interface Publish {
  readonly keys: readonly number[]
}

/** One of three transactions that are open side by side, each with keys of its own. */
interface Step {
  readonly session: 0 | 1 | 2
  readonly publish: readonly Publish[]
  /** `open`: it continues with the next step of its session. */
  readonly end: 'open' | 'commit' | 'rollback'
}

interface Case {
  readonly steps: readonly Step[]
  readonly relays: readonly { readonly ordering: 'none' | 'per-key'; readonly batchSize: number }[]
  /** The behavior of the broker for each message in turn. */
  readonly fate: readonly ('accept' | 'reject')[]
  readonly outages: readonly boolean[]
}

const step: fc.Arbitrary<Step> = fc.record({
  session: fc.constantFrom(0, 1, 2),
  publish: fc.array(
    fc.record({ keys: fc.array(fc.nat({ max: KEYS.length - 1 }), { minLength: 1, maxLength: 4 }) }),
    { minLength: 1, maxLength: 3 },
  ),
  end: fc.constantFrom('open', 'commit', 'commit', 'rollback'),
})
const scenario: fc.Arbitrary<Case> = fc.record({
  steps: fc.array(step, { minLength: 1, maxLength: 15 }),
  relays: fc.array(
    fc.record({ ordering: fc.constantFrom('none', 'per-key'), batchSize: fc.integer({ min: 1, max: 5 }) }),
    { minLength: 1, maxLength: 3 },
  ),
  fate: fc.array(fc.constantFrom('accept', 'accept', 'accept', 'reject'), { minLength: 1, maxLength: 20 }),
  outages: fc.array(fc.constantFrom(false, false, false, false, false, false, true), { maxLength: 20 }),
})

for (const kind of kindsOfRoots(target)) {
  test(`O3 the published order of each key is its commit order: ${kind.name}, seed ${SEED}`, async () => {
    const root = target.open(kind, { max: 9 })
    onTestFinished(() => root.close())
    await fc.assert(
      fc.asyncProperty(scenario, async (case_) => {
        const broker = new Broker()
        const respond = following(case_)
        const relays = await Promise.all(
          case_.relays.map(({ ordering, batchSize }, n) =>
            RelayUnderTest.started(root, broker.publisher({ owner: `relay-${n}`, ordering, respond }), {
              batchSize,
              retry: { attempts: 1000, delayMs: () => 1 },
            }),
          ),
        )
        const committed = await carryOut(root, case_.steps)
        await Promise.all(relays.map(({ relay }) => relay.drain()))
        await Promise.all(relays.map(({ relay }) => relay.stop()))
        // A message that waits for another attempt is not due when drain reads.
        const last = await RelayUnderTest.started(root, broker.publisher({ owner: 'last' }))
        await outbox.settled()
        await last.relay.stop()
        for (const key of KEYS) {
          const ids = committed.flatMap((message) => (message.key === key ? [message.id] : []))
          const seen = [
            ...new Set(broker.log.flatMap(({ message }) => (message.key === key ? [message.id] : []))),
          ]
          expect(key === undefined ? seen.sort() : seen, key).toEqual(key === undefined ? ids.sort() : ids)
        }
        expect(broker.violations).toEqual([])
      }),
      { seed: SEED, numRuns: RUNS },
    )
  })
}

interface Sent {
  readonly id: string
  readonly key: string | undefined
}

/** @returns the committed messages, in the order of the commits */
async function carryOut(root: Root, steps: readonly Step[]): Promise<Sent[]> {
  const publisher = outboxOf(root)
  const open = new Map<number, { transaction: OpenTransaction; sent: Sent[] }>()
  const committed: Sent[] = []
  const end = async (session: number, how: 'commit' | 'rollback'): Promise<void> => {
    const { transaction, sent } = open.get(session)!
    open.delete(session)
    await transaction[how]()
    if (how === 'commit') committed.push(...sent)
  }
  for (const { session, publish, end: how } of steps) {
    const { transaction, sent } = open.get(session) ?? { transaction: await root.begin(), sent: [] }
    open.set(session, { transaction, sent })
    for (const { keys } of publish) {
      // Each session has its own keys, because overlapping transactions have no order.
      const chosen = keys
        .filter((key) => KEYS[key] === undefined || key % 3 === session)
        .map((key) => KEYS[key])
      const messages = chosen.map((key) => ({ topic: 't', key, payload: null }))
      const stored = await publisher.publish(transaction.tx, messages)
      sent.push(...stored.map(({ id }, n) => ({ id, key: chosen[n] })))
    }
    if (how !== 'open') await end(session, how)
  }
  for (const session of open.keys()) await end(session, 'commit')
  return committed
}

/** A broker that refuses and fails as the case defines, and accepts everything after the end of the case. */
function following({ fate, outages }: Case): Respond {
  let calls = 0
  let messages = 0
  return (call) => {
    const down = outages[calls] === true
    calls += 1
    if (down && calls % 2 === 0) throw new Error('down')
    const refused = new Set<string | undefined>()
    const results = call.messages.map((message) => {
      if (message.key !== undefined && refused.has(message.key)) return { status: 'skipped' } as const
      const refuse = fate[messages] === 'reject'
      messages += 1
      if (!refuse) return call.accept(message)
      refused.add(message.key)
      return rejected()
    })
    if (down) throw new Error('the answer was lost')
    return results
  }
}
