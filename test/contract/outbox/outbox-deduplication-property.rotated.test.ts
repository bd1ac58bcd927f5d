import { createHash, randomUUID } from 'node:crypto'
import * as fc from 'fast-check'
import { test } from 'vitest'
import { TransactionConflictError, type DeduplicationOptions } from '@txbox/core'
import { createGarbageCollector } from '@txbox/gc'
import { createOutbox, type Outbox } from '@txbox/outbox'
import { useOutboxTarget } from '../../support/engines/outbox-target.ts'
import { SentHistory, type ModelMessage, type ModelOutcome } from '../../support/worlds/sent-history.ts'
import {
  onEachKindAndIsolation,
  useRoot,
  useTarget,
  type OpenTransaction,
  type Root,
} from '../../support/engines/target.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
/** To search for long: TXBOX_TEST_SEED=1 TXBOX_TEST_RUNS=500. */
const SEED = Number(process.env['TXBOX_TEST_SEED'] ?? 20_261_123)
const RUNS = Number(process.env['TXBOX_TEST_RUNS'] ?? 12)
const INBOX = target.outboxTable.replace(/outbox$/, 'inbox')

/** Pauses are multiples of 20 s, so that no sum of pauses comes near the window while the machine is slow. */
const WINDOW_MS = 50_000
const PAUSES_S = [0, 0, 20, 40, 60] as const
const BODIES = ['a', 'b', 'c'] as const
/** The last one spells the content of the first body. */
const IDS = [undefined, undefined, 'x', 'y', createHash('sha256').update(BODIES[0]).digest('hex')] as const

type Step =
  | { readonly do: 'send'; readonly messages: readonly SentMessage[]; readonly together: boolean }
  | { readonly do: 'savepoint' | 'rollback to' }
interface SentMessage {
  readonly topic: 0 | 1
  readonly key: string | undefined
  readonly body: string
  readonly id: string | undefined
}
interface Course {
  readonly steps: readonly Step[]
  readonly end: 'commit' | 'rollback'
}
interface Phase {
  readonly pauseS: number
  readonly collect: boolean
  readonly concurrent: boolean
  readonly transactions: readonly Course[]
}

const message: fc.Arbitrary<SentMessage> = fc.record({
  topic: fc.constantFrom(0, 0, 1),
  key: fc.constantFrom(undefined, 'A', 'B'),
  body: fc.constantFrom(...BODIES),
  id: fc.constantFrom(...IDS),
})
const send: fc.Arbitrary<Step> = fc.record({
  do: fc.constant('send' as const),
  messages: fc.array(message, { minLength: 1, maxLength: 5 }),
  together: fc.boolean(),
})
const course: fc.Arbitrary<Course> = fc.record({
  steps: fc.array(
    fc.oneof(
      { weight: 4, arbitrary: send },
      { weight: 1, arbitrary: fc.constant<Step>({ do: 'savepoint' }) },
      { weight: 1, arbitrary: fc.constant<Step>({ do: 'rollback to' }) },
    ),
    { minLength: 1, maxLength: 5 },
  ),
  end: fc.constantFrom('commit', 'commit', 'commit', 'rollback'),
})
const phase: fc.Arbitrary<Phase> = fc.record({
  pauseS: fc.constantFrom(...PAUSES_S),
  collect: fc.boolean(),
  concurrent: fc.boolean(),
  transactions: fc.array(course, { minLength: 1, maxLength: 4 }),
})
const case_ = fc.record({
  options: fc.record({
    contentBased: fc.boolean(),
    scope: fc.constantFrom('queue' as const, 'key' as const),
    contentMatch: fc.constantFrom('content' as const, 'id' as const),
  }),
  phases: fc.array(phase, { minLength: 1, maxLength: 4 }),
})

onEachKindAndIsolation(target, (kind, isolation) => {
  const root = useRoot(target, kind, { isolation, max: 6 })

  test(`F1 to F12 concurrent sends, pauses, savepoints and transactions have a serial order that the model allows, seed ${SEED}`, async () => {
    await fc.assert(
      fc.asyncProperty(case_, async ({ options, phases }) => {
        const performance = new Performance(root, options)
        for (const each of phases) await performance.run(each)
      }),
      { seed: SEED, numRuns: RUNS, endOnFailure: true },
    )
  }, 600_000)
})

/** A transaction as it came about: sends that were rolled back to a savepoint may have seen what was true for a moment. */
interface Happened {
  readonly sent: readonly {
    readonly messages: readonly ModelMessage[]
    readonly outcomes: readonly ModelOutcome[]
  }[]
  readonly end: Course['end']
}

class Performance {
  readonly #root: Root
  readonly #outbox: Outbox
  readonly #run = randomUUID()
  readonly #contentBased: boolean
  /** The histories that agree with all that was seen so far: transactions side by side may have had several orders. */
  #possible: readonly SentHistory[]
  readonly #stored = new Set<string>()
  #messages = 0

  constructor(root: Root, options: DeduplicationOptions) {
    this.#root = root
    const deduplication = { ...options, windowMs: WINDOW_MS }
    this.#outbox = createOutbox({ database: root.database, deduplication })
    this.#contentBased = options.contentBased === true
    this.#possible = [new SentHistory(deduplication)]
  }

  async run({ pauseS, collect, concurrent, transactions }: Phase): Promise<void> {
    await this.#pause(pauseS)
    if (collect) await createGarbageCollector({ database: this.#root.database }).runOnce()
    const happened: Happened[] = []
    if (concurrent) happened.push(...(await Promise.all(transactions.map((each) => this.#transact(each)))))
    else for (const each of transactions) happened.push(await this.#transact(each))

    const orders = concurrent ? permutations(happened) : [happened]
    const before = this.#possible
    const seen = await this.#remembered()
    this.#possible = before
      .flatMap((history) => orders.flatMap((order) => historyAfter(history, order) ?? []))
      .filter((history) => history.remembered().join('\n') === seen.join('\n'))
    if (this.#possible.length === 0) {
      const had = before.map((history) => history.remembered())
      throw new Error(`No order explains this: ${JSON.stringify({ had, happened, seen }, undefined, 1)}`)
    }
    await this.#checkStored(happened)
  }

  /** Moves the history into the past instead of waiting. */
  async #pause(seconds: number): Promise<void> {
    for (const history of this.#possible) history.nowMs += seconds * 1000
    const ago = (column: string): string => `${column} = ${column} - interval '${seconds}' second`
    await target.sql(`update ${INBOX} set ${ago('processed_at')}, ${ago('expires_at')}`)
  }

  async #transact(course: Course): Promise<Happened> {
    for (;;) {
      const transaction = await this.#root.begin()
      try {
        // A second for each deadlock would make a long test of a quick one.
        if (target.engine === 'postgres') await transaction.exec("set local deadlock_timeout = '20ms'")
        const happened = await this.#perform(transaction, course)
        await transaction[course.end]()
        return happened
      } catch (error) {
        await transaction.rollback()
        if (!(error instanceof TransactionConflictError)) throw error
      }
    }
  }

  async #perform(transaction: OpenTransaction, { steps, end }: Course): Promise<Happened> {
    const sent: Happened['sent'][number][] = []
    let saved: number | undefined
    for (const step of steps) {
      if (step.do === 'send') {
        const messages = step.messages.map((each) => this.#message(each))
        sent.push({ messages, outcomes: await this.#send(transaction, messages, step.together) })
      } else if (step.do === 'savepoint') {
        await transaction.savepoint('here')
        saved = sent.length
      } else if (saved !== undefined) {
        await transaction.rollbackTo('here')
        sent.length = saved
      }
    }
    return { sent, end }
  }

  async #send(
    { tx }: OpenTransaction,
    messages: readonly ModelMessage[],
    together: boolean,
  ): Promise<readonly ModelOutcome[]> {
    const news = messages.map((each) => ({ ...each, contentType: 'text/plain' }))
    if (together) return this.#outbox.publish(tx, news)
    const outcomes: ModelOutcome[] = []
    for (const each of news) outcomes.push(await this.#outbox.publish(tx, each))
    return outcomes
  }

  #message({ topic, key, body, id }: SentMessage): ModelMessage {
    const deduplicationId = id ?? (this.#contentBased ? undefined : 'x')
    return {
      id: `${this.#run}/${(this.#messages += 1)}`,
      topic: `${this.#run}/${topic}`,
      payload: body,
      ...(key === undefined ? {} : { key }),
      ...(deduplicationId === undefined ? {} : { deduplicationId }),
    }
  }

  /** The live claims of this run, in the words of the model. */
  async #remembered(): Promise<string[]> {
    const live = `expires_at > ${target.engine === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)'}`
    const key = target.engine === 'postgres' ? 'key' : 'cast(`key` as char character set utf8mb4)'
    const rows = await target.sql(`select ${key} as name, result from ${INBOX} where ${live}`)
    return rows
      .map(({ name, result }) => `${String(name).replace('§', '')} → ${String(result)}`)
      .filter((text) => text.startsWith(`["${this.#run}/`))
      .toSorted()
  }

  /** F2, F6: the outbox has exactly the messages that were answered as no duplicates in transactions that committed. */
  async #checkStored(happened: readonly Happened[]): Promise<void> {
    for (const { sent, end } of happened) {
      if (end === 'rollback') continue
      for (const { outcomes } of sent) {
        for (const { id, duplicate } of outcomes) if (!duplicate) this.#stored.add(id)
      }
    }
    const backlog = (await outbox.backlog()).map(({ id }) => id).filter((id) => id.startsWith(this.#run))
    const expected = [...this.#stored].toSorted()
    if (backlog.toSorted().join() !== expected.join())
      throw new Error(`The outbox has ${backlog.toSorted().join()} instead of ${expected.join()}`)
  }
}

/** The history after these transactions in this order; `undefined` if the model gives other answers. */
function historyAfter(before: SentHistory, order: readonly Happened[]): SentHistory | undefined {
  let history = before.copy()
  for (const { sent, end } of order) {
    const inside = history.copy()
    for (const { messages, outcomes } of sent) {
      const expected = inside.sendAll(messages)
      const agrees = expected.every(
        ({ id, duplicate }, n) => id === outcomes[n]!.id && duplicate === outcomes[n]!.duplicate,
      )
      if (!agrees) return undefined
    }
    if (end === 'commit') history = inside
  }
  return history
}

function permutations<T>(items: readonly T[]): readonly (readonly T[])[] {
  if (items.length <= 1) return [items]
  return items.flatMap((item, n) => permutations(items.toSpliced(n, 1)).map((rest) => [item].concat(rest)))
}
