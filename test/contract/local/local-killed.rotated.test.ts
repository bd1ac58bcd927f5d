import { PermanentError, RetryLaterError } from '@txbox/consumer'
import { expect, inject, test } from 'vitest'
import { atLeastOnce, type LocalConsumer, type LocalHandler } from '../../support/subjects/local-parts.ts'
import { LocalUnderTest, MADE } from '../../support/subjects/local-under-test.ts'
import { mainKind, useRoot, useTarget, type Root } from '../../support/engines/target.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { Proxy, type KillPhase } from '../../support/worlds/proxy.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
const kind = mainKind(target)
const root = useRoot(target, kind, { max: 8 })
const isQuick = inject('tier') === 'quick'

/** A consumer in the process that is killed. It is over when nothing is left to do. */
interface Scenario {
  /** Starts it through connections that end. */
  readonly start: (subject: LocalUnderTest, through: Root) => Promise<LocalConsumer>
  /** Whether a message may take effect more than once. */
  readonly isAtLeastOnce?: boolean
  /** The message that is dead in the end, if the process got so far. */
  readonly mayDie?: number
  /** Of a scenario with many requests, only some are tried. */
  readonly every: number
}

const failingOnce = (): LocalHandler => {
  const seen = new Set<string>()
  return (_tx, { id }) => {
    if (seen.has(id)) return
    seen.add(id)
    throw new Error('once')
  }
}

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  'handles messages': {
    every: 1,
    start: (subject, through) => subject.start('billing', () => undefined, { concurrency: 2 }, through),
  },
  'handles messages that fail once': {
    every: 2,
    start: (subject, through) => subject.start('billing', failingOnce(), { concurrency: 2 }, through),
  },
  'handles batches': {
    every: 1,
    start: (subject, through) => subject.startBatches('billing', () => undefined, {}, through),
  },
  'makes a dead letter': {
    every: 2,
    mayDie: 0,
    start: async (subject, through) => {
      let first: string | undefined
      return subject.start(
        'billing',
        (_tx, { id, key }) => {
          if (key === 'a') first ??= id
          if (id === first) throw new PermanentError('never')
        },
        {},
        through,
      )
    },
  },
  'defers a message by RetryLaterError': {
    every: 2,
    start: (subject, through) =>
      subject.start(
        'billing',
        (_tx, _message, { deliveries }) => {
          if (deliveries === 1) throw new RetryLaterError({ retryAfterMs: 60 })
        },
        {},
        through,
      ),
  },
  'handles at least once': {
    every: 2,
    isAtLeastOnce: true,
    start: (subject, through) => {
      const handler = atLeastOnce(({ id }) =>
        target.sql('insert into effects (name) values (?)', [`${subject.name()} ${id}`]),
      )
      return subject.started(subject.created('billing', { [MADE]: handler }, {}, through))
    },
  },
}

/** @returns whether the connections ended before the work had. */
async function kill(scenario: Scenario, request: number, phase: KillPhase): Promise<boolean> {
  const subject = new LocalUnderTest(target, root)
  const ids = await subject.publish({ key: 'a' }, { key: 'a' }, { key: 'b' }, { key: 'a' }, {})
  const proxy = await Proxy.to(target.address())
  const through = target.open(kind, { through: proxy, max: 8 })
  await through.ready?.()
  let isKilled = false
  const killed = proxy.killAt(request, phase).then(() => (isKilled = true))
  const starting = scenario.start(subject, through).catch(() => undefined)
  await Promise.race([killed, starting.then(() => subject.settled())])
  await proxy.close()
  // Its loops go on in this process, and reach nothing.
  void (await starting)?.stop({ timeoutMs: 0 })
  // A client whose BEGIN failed is not given back, so that the pool of pg never ends; its connections have ended.
  void through.close().catch(() => undefined)
  await check(scenario, subject, ids)
  return isKilled
}

/** The next process handles what is left. */
async function check(scenario: Scenario, subject: LocalUnderTest, ids: readonly string[]): Promise<void> {
  // The dead process would be waited for, until its leases expire.
  await outbox.expireLeases()
  const next = await subject.start('billing')
  await subject.settled()
  await next.stop()
  const dead = (await subject.deadLetters.list({ consumer: subject.name() })).map(({ id }) => id)
  const mayDie = scenario.mayDie === undefined ? [] : [ids[scenario.mayDie]]
  expect(dead.filter((id) => !mayDie.includes(id))).toEqual([])
  const all = await subject.effectsInOrder()
  const effects = scenario.isAtLeastOnce === true ? [...new Set(all)] : all
  expect(effects.toSorted()).toEqual(ids.filter((id) => !dead.includes(id)).toSorted())
  const ofKey = [ids[0]!, ids[1]!, ids[3]!].filter((id) => !dead.includes(id))
  expect(effects.filter((id) => ofKey.includes(id))).toEqual(ofKey)
}

/** The first requests are killed in each phase, later ones in one phase by turns. */
for (const [doing, scenario] of Object.entries(SCENARIOS)) {
  test(`L1 L4 L5 L7 L8 all connections of a process that ${doing} end at any statement, as when it is killed: no message is lost, doubled, out of order or stuck`, async () => {
    const phases: readonly KillPhase[] = ['before', 'sent', 'answered']
    let isUnfinished = true
    for (let [request, turn] = [1, 0]; isUnfinished && request < 100; turn += 1) {
      isUnfinished = false
      const isThorough = !isQuick && scenario.every === 1
      for (const phase of isThorough ? phases : [phases[turn % 3]!]) {
        if (await kill(scenario, request, phase)) isUnfinished = true
      }
      request += scenario.every * (isQuick ? 3 : 1)
    }
  }, 600_000)
}
