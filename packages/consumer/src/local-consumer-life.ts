import { hours } from '@txbox/core'
import type { LocalStore } from '@txbox/core/ports'
import { Deadline, LifeCycle, OptionChecker, SHARDS, oneLine, pause, untilTime } from '@txbox/core/internal'
import { ConsumerRun } from './consumer-run.ts'
import type { LocalSource } from './local/local-source.ts'
import { shareConcurrency, DEFAULT_CONCURRENCY } from './options/concurrency-shares.ts'
import type { ConsumerEvents, ConsumerFigures } from './options/consumer.ts'
import type { LocalInboxMessage } from './options/local-message.ts'
import type { LocalConsumer, LocalDrainResult } from './options/local-options.ts'
import { engineSettings, type LocalSettings } from './options/local-settings.ts'

/** The share of the time of a `drain` in which no further message begins, and its maximum. */
const END_TIME = { share: 0.25, maxMs: 1000 }

/** How long a drain waits before it looks again whether messages are left. */
const LOOK_MS = 20

/** How often nothing must be left: a message may become due right after the commit of the one before it. */
const QUIET_LOOKS = 2

/** The messages that are left are counted up to this number, and for so long after the deadline: counting them takes time. */
const COUNT = { most: 1_000_000, graceMs: 1000 }

/** The minimum timeout of statements for a busy database. */
const MIN_TIMEOUT_MS = 5000

type Events = ConsumerEvents<LocalInboxMessage>

/** A local consumer from its creation to its end: it runs from `start` to `stop`, or for as long as a drain takes. */
export class LocalConsumerLife extends LifeCycle implements LocalConsumer {
  readonly #settings: LocalSettings
  readonly #sourceOf: () => LocalSource
  #source: LocalSource | undefined
  #run: Promise<ConsumerRun> | undefined
  #current: ConsumerRun | undefined
  #isStarted = false
  #isPaused = false
  #drains = 0
  /** Resolves when the last run that was only for drains has ended. */
  #ending: Promise<void> = Promise.resolve()
  readonly #deadline = new Deadline()
  #ended: Promise<void> | undefined

  /** @param sourceOf creates the source of one run. */
  constructor(settings: LocalSettings, sourceOf: () => LocalSource) {
    super('LocalConsumer')
    this.#settings = settings
    this.#sourceOf = sourceOf
  }

  get figures(): ConsumerFigures {
    return this.#current?.figures ?? { inHand: 0, running: 0, waiting: 0, retrying: 0 }
  }

  get concurrency(): number {
    return this.#current?.permits.concurrency ?? this.#settings.concurrency ?? DEFAULT_CONCURRENCY
  }

  async start(): Promise<void> {
    this.refuseStopped('start')
    // Set first: a drain that ends meanwhile must not end the run.
    this.#isStarted = true
    try {
      await this.#running()
    } catch (error) {
      this.#isStarted = false
      throw error
    }
  }

  pause(): void {
    this.#isPaused = true
    this.#current?.setPaused(true)
  }

  resume(): void {
    this.#isPaused = false
    this.#current?.setPaused(false)
  }

  on<E extends keyof Events>(event: E, listener: (event: Events[E]) => void): () => void {
    return this.#settings.log.events.on(event, listener as never)
  }

  async drain(options: { deadlineMs?: number | undefined } = {}): Promise<LocalDrainResult> {
    const check = new OptionChecker('drain', options).known('deadlineMs')
    const deadlineMs =
      options.deadlineMs === undefined
        ? Infinity
        : check.milliseconds('deadlineMs', { min: 1, max: hours(24), default: Number.NaN })
    this.refuseStopped('drain')
    const endsAt = performance.now() + deadlineMs
    const counts = { handled: 0, parked: 0, deadLettered: 0 }
    const forget = [
      this.on('handled', () => counts.handled++),
      this.on('retried', ({ local }) => (counts.parked += local ? 0 : 1)),
      this.on('dead-lettered', () => counts.deadLettered++),
    ]
    this.#drains++
    let isEmpty = false
    let run: ConsumerRun | undefined
    try {
      run = await untilTime(this.#running(), endsAt, () => undefined)
      const endTimeMs = Math.min(deadlineMs * END_TIME.share, END_TIME.maxMs)
      if (run !== undefined) isEmpty = await this.#emptied(run, endsAt - endTimeMs)
    } finally {
      const over = this.#drainOver(Math.max(0, Math.min(hours(1), endsAt - performance.now())))
      // A run that has not begun in time ends when it has.
      if (run !== undefined) await over
      for (const each of forget) each()
    }
    if (isEmpty) return { ...counts, left: 0 }
    const counting = this.#store().countDue(this.#settings.consumer, COUNT.most)
    return { ...counts, left: await untilTime(counting, endsAt + COUNT.graceMs, () => Number.NaN) }
  }

  /** Waits until no message is due and none is held. @returns whether that was so before the time. */
  async #emptied(run: ConsumerRun, until: number): Promise<boolean> {
    const store = this.#store()
    const { consumer } = this.#settings
    const shards = Array.from({ length: SHARDS }, (_, shard) => ({ consumer, shard }))
    const isWorkLeft = async (): Promise<boolean> => (await store.work(shards)).length > 0
    for (let quiet = 0; ;) {
      // First what this process does, and then what the database has: a message may become due right after the commit of another.
      const isIdle = run.figures.inHand === 0 && this.#source?.isQuiet() !== false
      const isQuiet = isIdle && !(await untilTime(isWorkLeft(), until, () => true))
      quiet = isQuiet ? quiet + 1 : 0
      if (quiet === QUIET_LOOKS) return true
      if (this.isStopping || performance.now() >= until) return false
      await pause(Math.max(1, Math.min(LOOK_MS, until - performance.now())))
    }
  }

  #store(): LocalStore {
    const { ports, leaseMs } = this.#settings
    return ports.local({ statementTimeoutMs: Math.max(leaseMs, MIN_TIMEOUT_MS) })
  }

  /** Ends the run after the last of several drains, unless the consumer has been started meanwhile. */
  async #drainOver(timeoutMs: number): Promise<void> {
    const running = this.#run
    if (--this.#drains > 0 || this.#isStarted || this.isStopping || running === undefined) return
    this.#run = undefined
    this.#ending = running.then(
      (run) => run.stop(timeoutMs),
      () => undefined,
    )
    await this.#ending
  }

  #running(): Promise<ConsumerRun> {
    if (this.#run !== undefined) return this.#run
    const run = this.#begin()
    this.#run = run
    // By then, a drain whose time was over may have given this run up, and another one may have begun.
    run.catch(() => {
      if (this.#run === run) this.#run = undefined
    })
    return run
  }

  async #begin(): Promise<ConsumerRun> {
    // Two runs would use the same leases: the next one begins after the last one has ended.
    await this.#ending
    const { ports, consumer, handlers } = this.#settings
    // The hub does the same whenever it is joined, also after an outage. Here the caller of `start` gets the errors.
    await ports.checkSchema()
    await ports.subscriptions().register(consumer, [...handlers.keys()])
    this.refuseStopped('start')
    return this.#started()
  }

  async #started(): Promise<ConsumerRun> {
    const { ports, consumer, concurrency, handlers, log } = this.#settings
    this.#source = this.#sourceOf()
    const settings = engineSettings(this.#settings, this.#source)
    const run = new ConsumerRun(settings)
    // A handler without a transaction needs no connection.
    const isTransacting = [...handlers.values()].some(({ isAtLeastOnce }) => !isAtLeastOnce)
    let unuse: (() => void) | undefined
    // The share becomes smaller when another consumer starts: both together must not count for more than they use.
    const use = (connections: number): void => {
      unuse?.()
      unuse = isTransacting
        ? ports.useConnections?.(`local consumer '${oneLine(consumer)}'`, connections)
        : undefined
    }
    const leave = shareConcurrency(ports, {
      given: concurrency,
      set(share) {
        run.permits.concurrency = share
        use(share)
      },
    })
    if (concurrency !== undefined) use(concurrency)
    void run.ended.then(() => {
      // First: what this consumer leaves goes to the others at once.
      unuse?.()
      leave()
      if (this.#current === run) this.#current = undefined
    })
    this.#current = run
    run.setPaused(this.#isPaused)
    log.started(settings.source)
    await run.start()
    return run
  }

  protected async end(timeoutMs: number): Promise<void> {
    this.#deadline.within(timeoutMs)
    // A run that is stopping already may have less time now.
    void this.#current?.stop(timeoutMs)
    await (this.#ended ??= this.#finish())
  }

  async #finish(): Promise<void> {
    // A run that is just starting is stopped once it has started; the caller waits for that until the deadline at most.
    const starting = this.#ending.then(() => this.#run).catch(() => undefined)
    const run = await this.#deadline.waitFor(starting)
    if (run === undefined) void starting.then((started) => started?.stop(0))
    else await run.stop(this.#deadline.leftMs)
    this.#deadline.clear()
    this.#settings.log.stopped()
  }
}
