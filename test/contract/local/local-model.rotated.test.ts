import { setTimeout as pause } from 'node:timers/promises'
import { PermanentError, RetryLaterError } from '@txbox/consumer'
import * as fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import type { LocalConsumer, LocalHandler } from '../../support/subjects/local-parts.ts'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { kindsOfRoots, useTarget, type OpenTransaction, type Root } from '../../support/engines/target.ts'

const target = useTarget()
/** For a long search: TXBOX_TEST_SEED=1 TXBOX_TEST_RUNS=300. */
const SEED = Number(process.env['TXBOX_TEST_SEED'] ?? 4711)
const RUNS = Number(process.env['TXBOX_TEST_RUNS'] ?? 4)
/** Three keys of one shard, two keys of other shards, and no key. */
const KEYS = [...keysOfOneShard(3), 'b', 'c', undefined]
const SUBSCRIPTIONS: Readonly<Record<string, readonly string[]>> = {
  made: ['billing', 'mailer', 'search'],
  paid: ['billing', 'search'],
  sent: ['mailer'],
}
const TYPES = Object.keys(SUBSCRIPTIONS)
const CONSUMERS = ['billing', 'mailer', 'search']
const FATES = ['succeed', 'fail', 'later', 'at once', 'never'] as const
type FateOfTry = (typeof FATES)[number]

interface Message {
  readonly key: number
  readonly type: number
}

type Step =
  /** In one of three transactions that are open side by side, each with keys of its own. `open`: it continues later. */
  | {
      do: 'publish'
      session: 0 | 1 | 2
      calls: readonly (readonly Message[])[]
      end: 'open' | 'commit' | 'rollback'
    }
  | { do: 'start'; consumer: number; concurrency: number; batch: boolean; pool: 0 | 1 }
  | { do: 'stop'; pick: number }

interface Case {
  readonly steps: readonly { readonly step: Step; readonly afterMs: number }[]
  /** What the handlers of a consumer do, for each call in turn, repeated from the beginning. */
  readonly fates: readonly FateOfTry[]
}

const publish: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('publish' as const),
  session: fc.constantFrom(0, 1, 2),
  calls: fc.array(
    fc.array(fc.record({ key: fc.nat({ max: KEYS.length - 1 }), type: fc.nat({ max: TYPES.length - 1 }) }), {
      minLength: 1,
      maxLength: 5,
    }),
    { minLength: 1, maxLength: 3 },
  ),
  end: fc.constantFrom('open', 'commit', 'commit', 'commit', 'rollback'),
})
const start: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('start' as const),
  consumer: fc.nat({ max: CONSUMERS.length - 1 }),
  concurrency: fc.integer({ min: 1, max: 4 }),
  batch: fc.constantFrom(false, false, true),
  pool: fc.constantFrom(0, 1),
})
const scenario: fc.Arbitrary<Case> = fc.record({
  steps: fc.array(
    fc.record({
      step: fc.oneof(
        { weight: 8, arbitrary: publish },
        { weight: 3, arbitrary: start },
        { weight: 1, arbitrary: fc.record({ do: fc.constant('stop' as const), pick: fc.nat(10) }) },
      ),
      afterMs: fc.constantFrom(0, 0, 3, 15),
    }),
    { minLength: 4, maxLength: 20, size: 'max' },
  ),
  fates: fc.array(
    fc.oneof(
      { weight: 7, arbitrary: fc.constant('succeed' as const) },
      { weight: 3, arbitrary: fc.constantFrom(...FATES) },
    ),
    { minLength: 1, maxLength: 25, size: 'max' },
  ),
})

for (const [n, kind] of kindsOfRoots(target).entries()) {
  const seed = SEED + n
  test(`L2 L4 L5 L7 publishes, failing handlers and consumers that come and go at random: each subscriber handles each message once, in the order of its key: ${kind.name}, seed ${seed}`, async () => {
    const roots = [target.open(kind, { max: 20 }), target.open(kind, { max: 12 })]
    onTestFinished(() => Promise.all(roots.map((root) => root.close())).then(() => undefined))
    await fc.assert(
      fc.asyncProperty(scenario, async (case_) => {
        await new Performance(roots, case_).run()
      }),
      // What happens at the same time differs from run to run: a smaller case need not fail.
      { seed, numRuns: RUNS, endOnFailure: true },
    )
  }, 600_000)
}

interface Committed {
  readonly id: string
  readonly key: string | undefined
  readonly type: string
}

/** One case that is being executed, and the model: the committed messages in the order of the commits, and who is dead. */
class Performance {
  readonly #roots: readonly Root[]
  readonly #case: Case
  readonly #subject: LocalUnderTest
  readonly #running: LocalConsumer[] = []
  readonly #open = new Map<number, { transaction: OpenTransaction; stored: Committed[] }>()
  readonly #committed: Committed[] = []
  readonly #rolledBack: string[] = []
  /** The messages that a handler has refused for good, by consumer. */
  readonly #refused = new Map<string, Set<string>>(CONSUMERS.map((consumer) => [consumer, new Set()]))
  readonly #calls = new Map<string, number>()
  #isCalm = false

  constructor(roots: readonly Root[], case_: Case) {
    this.#roots = roots
    this.#case = case_
    this.#subject = new LocalUnderTest(target, roots[0]!, SUBSCRIPTIONS)
  }

  async run(): Promise<void> {
    try {
      for (const { step, afterMs } of this.#case.steps) {
        await this.#carryOut(step)
        if (afterMs > 0) await pause(afterMs)
      }
      for (const session of [...this.#open.keys()]) await this.#end(session, 'commit')
      this.#isCalm = true
      for (const consumer of CONSUMERS) await this.#start(consumer, { concurrency: 3, batch: false, pool: 0 })
      for (const consumer of CONSUMERS) await this.#subject.settled(consumer)
    } finally {
      await Promise.all(this.#running.map((consumer) => consumer.stop()))
    }
    for (const consumer of CONSUMERS) await this.#check(consumer)
  }

  async #check(consumer: string): Promise<void> {
    const subject = this.#subject
    const refused = this.#refused.get(consumer)!
    const dead = (await subject.deadLetters.list({ consumer: subject.name(consumer), limit: 1000 })).map(
      ({ id }) => id,
    )
    expect(dead.toSorted(), `dead at ${consumer}`).toEqual([...refused].toSorted())
    const expected = this.#committed.filter(
      ({ id, type }) => SUBSCRIPTIONS[type]!.includes(consumer) && !refused.has(id),
    )
    const effects = await subject.effectsInOrder(consumer)
    expect(effects.toSorted(), `effects of ${consumer}`).toEqual(expected.map(({ id }) => id).toSorted())
    for (const key of KEYS) {
      if (key === undefined) continue
      const ids = expected.filter((message) => message.key === key).map(({ id }) => id)
      expect(
        effects.filter((id) => ids.includes(id)),
        `${key} of ${consumer}`,
      ).toEqual(ids)
    }
    const called = new Set(subject.runs.map(({ id }) => id))
    expect(this.#rolledBack.filter((id) => called.has(id))).toEqual([])
    expect(subject.violations).toEqual([])
  }

  async #carryOut(step: Step): Promise<void> {
    if (step.do === 'publish') await this.#publish(step)
    else if (step.do === 'start' && this.#running.length < 6)
      await this.#start(CONSUMERS[step.consumer]!, step)
    else if (step.do === 'stop') {
      const [stopped] = this.#running.splice(step.pick % Math.max(1, this.#running.length), 1)
      await stopped?.stop({ timeoutMs: 2000 })
    }
  }

  async #publish({ session, calls, end }: Extract<Step, { do: 'publish' }>): Promise<void> {
    const entry = this.#open.get(session) ?? { transaction: await this.#roots[0]!.begin(), stored: [] }
    this.#open.set(session, entry)
    for (const call of calls) {
      // Each session has its own keys, because overlapping transactions have no order.
      const chosen = call
        .filter(({ key }) => KEYS[key] === undefined || key % 3 === session)
        .map(({ key, type }) => ({ key: KEYS[key], type: TYPES[type]!, payload: null }))
      if (chosen.length === 0) continue
      const stored = await this.#subject.outbox.publish(entry.transaction.tx, chosen)
      entry.stored.push(...stored.map(({ id }, n) => ({ id, key: chosen[n]!.key, type: chosen[n]!.type })))
    }
    if (end !== 'open') await this.#end(session, end)
  }

  async #end(session: number, how: 'commit' | 'rollback'): Promise<void> {
    const { transaction, stored } = this.#open.get(session)!
    this.#open.delete(session)
    await transaction[how]()
    if (how === 'commit') this.#committed.push(...stored)
    else this.#rolledBack.push(...stored.map(({ id }) => id))
  }

  async #start(
    consumer: string,
    { concurrency, batch, pool }: { concurrency: number; batch: boolean; pool: 0 | 1 },
  ): Promise<void> {
    const retry = { attempts: 1000, delayMs: () => 5 }
    const through = this.#roots[pool]!
    if (batch) {
      const started = await this.#startBatches(consumer, retry, through)
      this.#running.push(started)
      return
    }
    const handler: LocalHandler = (_tx, { id }) => this.#meet(consumer, id)
    const handlers = Object.fromEntries(TYPES.map((type) => [type, handler]))
    this.#running.push(await this.#subject.start(consumer, handlers, { concurrency, retry }, through))
  }

  #startBatches(consumer: string, retry: object, { database }: Root): Promise<LocalConsumer> {
    const handler = async (tx: never, messages: readonly { id: string }[]): Promise<void> => {
      for (const { id } of messages) await target.effect(tx, `${this.#subject.name(consumer)} ${id}`)
      // A batch that fails is split: a message is refused for good only when it is alone.
      for (const { id } of messages) this.#meet(consumer, id, messages.length === 1)
    }
    const handlers = Object.fromEntries(TYPES.map((type) => [type, handler]))
    const options = { concurrency: 1, batch: { maxSize: 6, lingerMs: 5 }, retry }
    return this.#subject.started(this.#subject.created(consumer, handlers, options, { database }))
  }

  #meet(consumer: string, id: string, mayRefuse = true): void {
    if (this.#isCalm) return
    const call = this.#calls.get(consumer) ?? 0
    this.#calls.set(consumer, call + 1)
    const fate = this.#case.fates[call % this.#case.fates.length]!
    if (fate === 'fail') throw new Error('failed')
    if (fate === 'later') throw new RetryLaterError({ retryAfterMs: 60 })
    if (fate === 'at once') throw new RetryLaterError({ retryAfterMs: 1 })
    if (fate !== 'never' || !mayRefuse) return
    this.#refused.get(consumer)!.add(id)
    throw new PermanentError('never')
  }
}
