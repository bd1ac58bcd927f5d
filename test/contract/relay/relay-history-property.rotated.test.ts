import { setTimeout as pause } from 'node:timers/promises'
import * as fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { createDeadLetters, type DeadLetters, type PublishResult } from '@txbox/relay'
import { Broker, rejected, type Respond } from '../../support/worlds/broker.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { MessageHistory } from '../../support/worlds/message-history.ts'
import { MortalRelay, RELAY_STEPS, type Death } from '../../support/subjects/mortal-relay.ts'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { outboxOf, RelayUnderTest } from '../../support/subjects/relay-under-test.ts'
import { kindsOfRoots, useTarget, type OpenTransaction, type Root } from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
/** For a long search: TXBOX_TEST_SEED=1 TXBOX_TEST_RUNS=300. */
const SEED = Number(process.env['TXBOX_TEST_SEED'] ?? 4711)
const RUNS = Number(process.env['TXBOX_TEST_RUNS'] ?? 4)
const ATTEMPTS = 3
/** Three keys of one shard, two keys of other shards, and no key. */
const KEYS = [...keysOfOneShard(3), 'b', 'c', undefined]
const REDRIVES = target.engine === 'postgres' ? 'txbox.redrives' : 'txbox_redrives'

interface Message {
  readonly key: number
  /** The time until the scheduled delivery. */
  readonly inMs: number | undefined
}

type Step =
  /** In one of three transactions that are open side by side, each with keys of its own. `open`: it continues later. */
  | { do: 'publish'; session: 0 | 1 | 2; messages: readonly Message[]; end: 'open' | 'commit' | 'rollback' }
  | { do: 'redrive' | 'discard'; by: 'ids' | 'key' | 'topic'; pick: number; times: 1 | 2 }
  | { do: 'start'; ordering: 'none' | 'per-key'; batchSize: number; death: Death | undefined }
  | { do: 'stop' }

interface History {
  readonly steps: readonly { readonly step: Step; readonly afterMs: number }[]
  /** The behavior of the broker for each message in turn, repeated from the beginning. */
  readonly answers: readonly ('accept' | 'later' | 'much later' | 'never')[]
  /** The calls with an unknown result: the broker was unavailable, or its answer was lost. */
  readonly outage: { readonly call: number; readonly how: 'down' | 'lost' }
}

const publish: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('publish' as const),
  session: fc.constantFrom(0, 1, 2),
  messages: fc.array(
    fc.record({
      key: fc.nat({ max: KEYS.length - 1 }),
      inMs: fc.oneof(
        { weight: 5, arbitrary: fc.constant(undefined) },
        { weight: 1, arbitrary: fc.integer({ min: -20, max: 40 }) },
      ),
    }),
    { minLength: 1, maxLength: 8 },
  ),
  end: fc.constantFrom('open', 'commit', 'commit', 'commit', 'rollback'),
})
const touch: fc.Arbitrary<Step> = fc.record({
  do: fc.constantFrom('redrive', 'redrive', 'redrive', 'discard'),
  by: fc.constantFrom('ids', 'key', 'topic'),
  pick: fc.nat(1000),
  times: fc.constantFrom(1, 1, 2),
})
const death: fc.Arbitrary<Death> = fc.record({
  step: fc.constantFrom(...RELAY_STEPS),
  nth: fc.integer({ min: 1, max: 8 }),
  phase: fc.constantFrom('before', 'answered'),
})
const start: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('start' as const),
  ordering: fc.constantFrom('none', 'per-key'),
  batchSize: fc.integer({ min: 1, max: 6 }),
  death: fc.option(death, { nil: undefined, freq: 3 }),
})
const history: fc.Arbitrary<History> = fc.record({
  steps: fc.array(
    fc.record({
      step: fc.oneof(
        { weight: 10, arbitrary: publish },
        { weight: 4, arbitrary: touch },
        { weight: 3, arbitrary: start },
        { weight: 1, arbitrary: fc.constant({ do: 'stop' } as const) },
      ),
      afterMs: fc.constantFrom(0, 0, 3, 12),
    }),
    { minLength: 5, maxLength: 30, size: 'max' },
  ),
  answers: fc.array(fc.constantFrom('accept', 'accept', 'accept', 'later', 'much later', 'never'), {
    minLength: 1,
    maxLength: 30,
    size: 'max',
  }),
  outage: fc.record({ call: fc.nat({ max: 60 }), how: fc.constantFrom('down', 'lost') }),
})

for (const [n, kind] of kindsOfRoots(target).entries()) {
  const seed = SEED + n
  test(`O1 O3 O4 O5 O7 O11 messages, relays and dead letters at random: nothing is lost, out of order, or published once it is settled: ${kind.name}, seed ${seed}`, async () => {
    const root = target.open(kind, { max: 16 })
    onTestFinished(() => root.close())
    await fc.assert(
      fc.asyncProperty(history, async (case_) => {
        await new Performance(root, case_).run()
      }),
      // What happens at the same time differs from run to run: a smaller history need not fail.
      { seed, numRuns: RUNS, endOnFailure: true },
    )
  }, 600_000)
}

/** One history that is being executed. */
class Performance {
  readonly #root: Root
  readonly #case: History
  readonly #broker = new Broker()
  readonly #history: MessageHistory
  readonly #dead: DeadLetters
  readonly #relays: { readonly mortal: MortalRelay; readonly subject: RelayUnderTest }[] = []
  readonly #open = new Map<number, { transaction: OpenTransaction; ids: string[] }>()
  readonly #inFlight: Promise<unknown>[] = []
  #calm = false
  #messages = 0
  #calls = 0

  constructor(root: Root, case_: History) {
    this.#root = root
    this.#case = case_
    this.#dead = createDeadLetters({ database: root.database })
    this.#history = new MessageHistory(ATTEMPTS, (owner) => this.#inFlight.push(this.#stopDeadRelay(owner)))
  }

  async run(): Promise<void> {
    await outbox.clear()
    for (const { step, afterMs } of this.#case.steps) {
      await this.#carryOut(step)
      if (afterMs > 0) await pause(afterMs)
    }
    for (const session of [...this.#open.keys()]) await this.#end(session, 'commit')
    // Each event may cause another one, as the death of a relay does.
    for (const work of this.#inFlight) await work
    while (this.#relays.length > 0) await this.#stop()
    for (const work of this.#inFlight) await work
    this.#calm = true
    await this.#start({ do: 'start', ordering: 'none', batchSize: 100, death: undefined })
    await outbox.settled()
    await this.#stop()
    await this.#check()
  }

  async #check(): Promise<void> {
    const history = this.#history
    expect(history.violations).toEqual([])
    expect(this.#broker.violations).toEqual([])
    expect(history.lost()).toEqual([])
    expect(history.touchedTwice()).toEqual([])
    expect(await outbox.backlog()).toEqual([])
    expect((await outbox.parked()).map(({ id }) => id).sort()).toEqual(history.dead().sort())
    expect((await this.#dead.list({ limit: 1000 })).map(({ id }) => id).sort()).toEqual(history.dead().sort())
    const [row] = await outbox.sql(`select count(*) as n from ${REDRIVES}`)
    expect(Number(row?.['n'])).toBe(history.redrives())
  }

  async #carryOut(step: Step): Promise<void> {
    if (step.do === 'publish') await this.#publish(step)
    else if (step.do === 'start') await this.#start(step)
    else if (step.do === 'stop') await this.#stop()
    else for (let n = 0; n < step.times; n += 1) this.#inFlight.push(this.#touch(step))
  }

  async #publish({ session, messages, end }: Extract<Step, { do: 'publish' }>): Promise<void> {
    const entry = this.#open.get(session) ?? { transaction: await this.#root.begin(), ids: [] }
    this.#open.set(session, entry)
    // Each session has its own keys, because overlapping transactions have no order.
    const chosen = messages
      .filter(({ key }) => KEYS[key] === undefined || key % 3 === session)
      .map(({ key, inMs }) => ({
        key: KEYS[key],
        deliverAt: inMs === undefined ? undefined : new Date(Date.now() + inMs),
      }))
    const stored = await outboxOf(this.#root).publish(
      entry.transaction.tx,
      chosen.map((message) => ({ topic: 't', payload: null, ...message })),
    )
    for (const [n, { id }] of stored.entries()) {
      this.#history.stored(id, chosen[n]!.key, chosen[n]!.deliverAt)
      entry.ids.push(id)
    }
    if (end !== 'open') await this.#end(session, end)
  }

  async #end(session: number, how: 'commit' | 'rollback'): Promise<void> {
    const { transaction, ids } = this.#open.get(session)!
    this.#open.delete(session)
    if (how === 'rollback') this.#history.ended(ids, how)
    await transaction[how]()
    if (how === 'commit') this.#history.ended(ids, how)
  }

  async #touch({ do: what, by, pick }: Extract<Step, { do: 'redrive' | 'discard' }>): Promise<void> {
    const dead = this.#history.dead()
    const id = dead[pick % dead.length]
    if (id === undefined) return
    const selection = {
      ids: { ids: dead.filter((_, n) => (pick + n) % 3 > 0) },
      key: { key: KEYS[pick % 5] },
      topic: { topic: 't' },
    }[by]
    const history = this.#history
    if (what === 'discard') {
      history.discarded((await this.#dead.discard(selection)).map((letter) => letter.id))
      return
    }
    history.redriving += 1
    history.redriven((await this.#dead.redrive(selection)).map((letter) => letter.id))
    history.redriving -= 1
  }

  async #start({ ordering, batchSize, death: end }: Extract<Step, { do: 'start' }>): Promise<void> {
    if (this.#relays.length === 3) return
    const owner = `relay-${this.#messages}-${this.#relays.length}-${this.#history.now()}`
    const mortal = new MortalRelay(owner, this.#root.database, this.#history, end)
    const publisher = this.#broker.publisher({ owner, ordering, respond: this.#respond(owner) })
    const subject = new RelayUnderTest(mortal, mortal.publisher(publisher), {
      ...{ owner, batchSize, leaseMs: 900, retry: { attempts: ATTEMPTS, delayMs: () => 2 } },
    })
    this.#relays.push({ mortal, subject })
    await subject.relay.start()
  }

  /** The oldest one. */
  async #stop(): Promise<void> {
    const oldest = this.#relays.shift()
    if (oldest === undefined) return
    const stopped = oldest.subject.relay.stop({ timeoutMs: 2000 })
    this.#inFlight.push(stopped)
    // It may die of it.
    await Promise.race([stopped, oldest.mortal.death])
  }

  /** Lets the leases of a dead relay expire at once, so that the test does not wait for them. */
  async #stopDeadRelay(owner: string): Promise<void> {
    const place = this.#relays.findIndex(({ mortal }) => mortal.owner === owner)
    // Unless it is being stopped.
    const [dead] = place === -1 ? [] : this.#relays.splice(place, 1)
    await dead?.subject.relay.stop({ timeoutMs: 0 })
    await outbox.expireLeases(owner)
  }

  /** A broker that answers as the history says, until the end. */
  #respond(owner: string): Respond {
    const { answers, outage } = this.#case
    const answer = (): PublishResult | undefined =>
      ({
        accept: undefined,
        later: rejected(),
        'much later': rejected({ retryAfterMs: 15 }),
        never: rejected({ retryable: false }),
      })[this.#calm ? 'accept' : answers[this.#messages++ % answers.length]!]
    return (call) => {
      for (const [n, message] of call.messages.entries()) {
        this.#history.tried(owner, message, call.messages.slice(0, n))
      }
      this.#calls += 1
      const out = !this.#calm && this.#calls === outage.call
      if (out && outage.how === 'down') throw new Error('down')
      const refused = new Set<string>()
      const results = call.messages.map((message): PublishResult => {
        const { key } = message
        if (key !== undefined && refused.has(key)) return { status: 'skipped' }
        const refusal = answer()
        if (refusal !== undefined && key !== undefined) refused.add(key)
        if (refusal !== undefined) return refusal
        this.#history.accepted(message.id)
        return call.accept(message)
      })
      if (out) throw new Error('the answer was lost')
      return results
    }
  }
}
