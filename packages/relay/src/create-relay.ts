import { hours } from '@txbox/core'
import {
  Deadline,
  LifeCycle,
  OptionChecker,
  endChecks,
  stoppedBy,
  unlessAborted,
  untilTime,
  within,
} from '@txbox/core/internal'
import type { RelayLog } from './options/relay-log.ts'
import { checkRelayOptions, type RelaySettings } from './options/relay-options.ts'
import { RelayGauges } from './relay-gauges.ts'
import { RelayRun } from './relay-run.ts'
import type { Relay, RelayEvents, RelayOptions } from './options/relay.ts'

/**
 * Creates a relay, which reads the outbox in batches, publishes each batch outside any transaction, and deletes the messages
 * that the broker has accepted. Each message is published at least once, and the messages of one key in order, with any
 * number of relays.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option, or a database without a `db`.
 */
export function createRelay(options: RelayOptions): Relay {
  const { settings, signal, log } = checkRelayOptions(options)
  return stoppedBy(signal, new StartableRelay(settings, log))
}

/** The share of the time of a `drain` in which its run ends, and its maximum. */
const END_TIME = { share: 0.25, maxMs: 1000 }
/** How long `stop` waits for a check of the publisher that goes on although it was aborted. */
const CHECK_END_MS = 1000

class StartableRelay extends LifeCycle implements Relay {
  readonly #settings: RelaySettings
  readonly #log: RelayLog
  readonly #gauges: RelayGauges
  #run: Promise<RelayRun> | undefined
  /** Whether the relay is to run until `stop`, and not only as long as a drain takes. */
  #started = false
  #drains = 0
  /** Resolves when the last run that was only for drains has ended. */
  #ending: Promise<void> = Promise.resolve()
  /** That run, until it has ended. */
  #endingRun: Promise<RelayRun> | undefined
  /** The end of `stop`. */
  readonly #deadline = new Deadline()
  #ended: Promise<void> | undefined

  constructor(settings: RelaySettings, log: RelayLog) {
    super('Relay')
    this.#settings = settings
    this.#log = log
    this.#gauges = new RelayGauges(settings)
  }

  async start(): Promise<void> {
    this.refuseStopped('start')
    // Set first: a drain that ends meanwhile must not end the run.
    this.#started = true
    try {
      await (this.#run ??= this.#begin())
    } catch (error) {
      this.#started = false
      throw error
    }
    this.#log.started()
  }

  async drain(
    options: { deadlineMs?: number | undefined } = {},
  ): Promise<{ published: number; parked: number; deadLettered: number }> {
    const deadlineMs = deadlineOption(options)
    this.refuseStopped('drain')
    const endsAt = performance.now() + deadlineMs
    this.#drains++
    let run: RelayRun | undefined
    let before: RelayRun['counts'] | undefined
    try {
      run = await untilTime((this.#run ??= this.#begin()), endsAt, () => undefined)
      if (run === undefined) return { published: 0, parked: 0, deadLettered: 0 }
      before = { ...run.counts }
      const worksMs = endsAt - performance.now() - Math.min(deadlineMs * END_TIME.share, END_TIME.maxMs)
      await unlessAborted(drainedWithin(run, worksMs), run.broken)
    } finally {
      const over = this.#drainOver(Math.max(0, Math.min(hours(1), endsAt - performance.now())))
      // A run that has not begun in time ends when it has.
      if (run !== undefined) await over
    }
    // Read only now: calls that were in flight at the end of the drain are part of it.
    const { published, parked, deadLettered } = run.counts
    return {
      published: published - before.published,
      parked: parked - before.parked,
      deadLettered: deadLettered - before.deadLettered,
    }
  }

  /** Ends the run after the last of several drains, unless the relay has been started meanwhile. */
  async #drainOver(timeoutMs: number): Promise<void> {
    const running = this.#run
    if (--this.#drains > 0 || this.#started || this.isStopping || running === undefined) return
    this.#run = undefined
    this.#endingRun = running
    this.#ending = running
      .then(
        (run) => run.stop(timeoutMs),
        () => undefined,
      )
      .finally(() => (this.#endingRun = undefined))
    await this.#ending
  }

  on<E extends keyof RelayEvents>(event: E, listener: (event: RelayEvents[E]) => void): () => void {
    return this.#settings.events.on(event, listener)
  }

  async #begin(): Promise<RelayRun> {
    // Two runs would use the same leases: the next one begins after the last one has ended.
    await this.#ending
    const run = new RelayRun(this.#settings, this.#gauges)
    run.broken.addEventListener('abort', () => this.fail(run.broken.reason))
    try {
      await run.start()
    } catch (error) {
      this.#run = undefined
      throw error
    }
    return run
  }

  protected async end(timeoutMs: number): Promise<void> {
    this.#deadline.within(timeoutMs)
    void endChecks(this.#settings.publisher)
    // A run that is stopping already may have less time now.
    if (this.#ended !== undefined) void this.#run?.then((run) => run.stop(timeoutMs)).catch(() => undefined)
    // A run whose drains are over would wait for its last calls as long as they take.
    void this.#endingRun?.then((run) => run.stop(timeoutMs)).catch(() => undefined)
    await (this.#ended ??= this.#finish())
  }

  async #finish(): Promise<void> {
    const deadline = this.#deadline
    const ended = this.#endingRun?.then(() => this.#ending).catch(() => undefined)
    // A run that is just starting is stopped once it has started; the caller waits for that until the deadline at most.
    const starting = this.#ending.then(() => this.#run).catch(() => undefined)
    const run = await deadline.waitFor(starting)
    if (run === undefined) starting.then((started) => started?.stop(0)).catch(() => undefined)
    else await run.stop(deadline.leftMs)
    // A run of a drain may not even have begun.
    if (ended !== undefined) await deadline.waitFor(ended, 0)
    // Checks were aborted when the stop began. Most have ended long ago.
    await deadline.waitFor(within(endChecks(this.#settings.publisher), CHECK_END_MS, () => undefined))
    // The async function turns an error that `close` throws into a rejection.
    const closing = (async () => this.#settings.publisher.close?.())()
    // Even if no time is left, `close` gets one turn of the event loop.
    await deadline
      .waitFor(closing, 0)
      .catch((error: unknown) => this.#settings.events.emit('error', { error }))
    deadline.clear()
    this.#log.stopped()
  }
}

function deadlineOption(options: { deadlineMs?: number | undefined }): number {
  const check = new OptionChecker('drain', options).known('deadlineMs')
  if (options.deadlineMs === undefined) return Infinity
  return check.milliseconds('deadlineMs', { min: 1, max: hours(24), default: Number.NaN })
}

/** Waits for a drain of the run, but not longer than `ms`. */
async function drainedWithin(run: RelayRun, ms: number): Promise<void> {
  if (ms === Infinity) return run.drained()
  const late = new AbortController()
  await within(run.drained(late.signal), Math.max(0, ms), () => late.abort())
}
