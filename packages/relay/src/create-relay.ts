import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { InvalidOptionError, exponentialBackoff, hours, type Publisher, type RetryPolicy } from '@txbox/core'
import { OptionChecker, connectedPortsOf, loggerOption, nameOf } from '@txbox/core/internal'
import { relayLog, type RelayLog } from './log-events.ts'
import { RelayRun, type RelaySettings } from './relay-run.ts'
import type { Relay, RelayEvents, RelayOptions } from './relay.ts'

const MIB = 1_048_576

/**
 * A relay: reads the outbox in batches, publishes each outside any transaction, and deletes what the broker has
 * accepted. At least once; the messages of one key in order, with any number of relays.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option, or a database without a `db`.
 */
export function createRelay(options: RelayOptions): Relay {
  const { settings, signal, log } = checkOptions(options)
  const relay = new StartableRelay(settings, log)
  const stop = (): void => void relay.stop()
  if (signal?.aborted === true) stop()
  signal?.addEventListener('abort', stop, { once: true })
  const forget = (): void => signal?.removeEventListener('abort', stop)
  relay.stopped.then(forget, forget)
  return relay
}

class StartableRelay implements Relay {
  readonly stopped: Promise<void>
  readonly #settings: RelaySettings
  readonly #log: RelayLog
  readonly #resolveStopped: () => void
  readonly #rejectStopped: (error: unknown) => void
  #run: Promise<RelayRun> | undefined
  /** Asked to run until `stop`, not only for as long as a drain takes. */
  #started = false
  #drains = 0
  /** The end of a run that was only for drains. */
  #ending: Promise<void> = Promise.resolve()
  #stopping: Promise<void> | undefined

  constructor(settings: RelaySettings, log: RelayLog) {
    this.#settings = settings
    this.#log = log
    const { promise, resolve, reject } = withResolvers()
    this.stopped = promise
    // Who listens sees it; who does not has been told by 'error'.
    this.stopped.catch(() => undefined)
    this.#resolveStopped = resolve
    this.#rejectStopped = reject
  }

  async start(): Promise<void> {
    this.#refuseStopped('start')
    await (this.#run ??= this.#begin())
    this.#started = true
    this.#log.started()
  }

  async stop(options: { timeoutMs?: number | undefined } = {}): Promise<void> {
    const timeoutMs = new OptionChecker('stop', options)
      .known('timeoutMs')
      .milliseconds('timeoutMs', { min: 0, max: hours(1), default: 10_000 })
    await (this.#stopping ??= this.#end(timeoutMs))
  }

  async drain(): Promise<{ published: number; parked: number; deadLettered: number }> {
    this.#refuseStopped('drain')
    this.#drains++
    try {
      const run = await (this.#run ??= this.#begin())
      const before = { ...run.counts }
      await Promise.race([run.drained(), run.broken])
      const { published, parked, deadLettered } = run.counts
      return {
        published: published - before.published,
        parked: parked - before.parked,
        deadLettered: deadLettered - before.deadLettered,
      }
    } finally {
      await this.#drainOver()
    }
  }

  /** The last of several drains ends the run, unless the relay has been started meanwhile. */
  async #drainOver(): Promise<void> {
    const running = this.#run
    if (--this.#drains > 0 || this.#started || this.#stopping !== undefined || running === undefined) return
    this.#run = undefined
    this.#ending = running.then(
      (run) => run.stop(hours(1)),
      () => undefined,
    )
    await this.#ending
  }

  on<E extends keyof RelayEvents>(event: E, listener: (event: RelayEvents[E]) => void): () => void {
    return this.#settings.events.on(event, listener)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async #begin(): Promise<RelayRun> {
    // Both use the same leases: one after the other.
    await this.#ending
    const run = new RelayRun(this.#settings)
    try {
      await run.start()
    } catch (error) {
      this.#run = undefined
      throw error
    }
    run.broken.catch((error: unknown) => {
      this.#rejectStopped(error)
      void this.stop()
    })
    return run
  }

  async #end(timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs
    // One that is just starting is stopped once it has started, though nobody waits longer than the deadline for that.
    const starting = this.#ending.then(() => this.#run).catch(() => undefined)
    const late = new Promise<'late'>((resolve) => setTimeout(resolve, timeoutMs, 'late').unref())
    const run = await Promise.race([starting, late])
    if (run === 'late') starting.then((started) => started?.stop(0)).catch(() => undefined)
    else await run?.stop(Math.max(0, deadline - performance.now()))
    const left = Math.max(0, deadline - performance.now())
    // Inside an async function, because a publisher may also throw instead of rejecting.
    const closing = (async () => this.#settings.publisher.close?.())()
    await Promise.race([closing, new Promise((resolve) => setTimeout(resolve, left).unref())]).catch(
      (error: unknown) => this.#settings.events.emit('error', { error }),
    )
    closing.catch(() => undefined)
    this.#log.stopped()
    this.#resolveStopped()
  }

  #refuseStopped(where: string): void {
    if (this.#stopping === undefined) return
    throw new InvalidOptionError(`${where}: this relay has been stopped. Create another with createRelay.`)
  }
}

function checkOptions(options: RelayOptions): {
  settings: RelaySettings
  signal: AbortSignal | undefined
  log: RelayLog
} {
  const where = 'createRelay'
  const check = new OptionChecker(where, options).known(
    ...[
      'database',
      'publisher',
      'batchSize',
      'batchBytes',
      'pollIntervalMs',
      'wakeup',
      'leaseMs',
      'owner',
      'retry',
      'publishTimeoutMs',
    ],
    ...['logger', 'signal'],
  )
  const wakeup = check.oneOf('wakeup', ['poll', 'notify'], 'poll')
  const poll = new OptionChecker(`${where}: pollIntervalMs`, options.pollIntervalMs ?? {}).known('min', 'max')
  const minMs = poll.milliseconds('min', { min: 1, max: hours(1), default: 20 })
  const maxMs = poll.milliseconds('max', { min: minMs, max: hours(1), default: Math.max(minMs, 500) })
  const ports = connectedPortsOf(where, options.database)
  if (wakeup === 'notify' && ports.listen === undefined) {
    throw new InvalidOptionError(
      "createRelay: wakeup: 'notify' needs PostgreSQL, and a connection to listen on: give postgres() a pg.Pool as 'db', or " +
        "the option 'listen'.",
    )
  }
  const owner = check.text('owner', {
    max: 200,
    default: `${hostname()}:${process.pid}:${randomBytes(4).toString('hex')}`,
  })
  const log = relayLog(owner, loggerOption(check, options.logger))
  return {
    log,
    settings: {
      ports,
      leases: ports.leases(),
      wakeup,
      publisher: checkPublisher(check, options.publisher),
      publishTimeoutMs: check.milliseconds('publishTimeoutMs', { min: 10, max: hours(1), default: 60_000 }),
      batchSize: check.integer('batchSize', { min: 1, max: 10_000, default: 1000 }),
      batchBytes: check.integer('batchBytes', { min: 1024, max: 256 * MIB, default: 4 * MIB }),
      pollMs: { min: minMs, max: maxMs },
      leaseMs: check.milliseconds('leaseMs', { min: 500, max: 600_000, default: 10_000 }),
      owner,
      retry: checkRetry(check, options.retry),
      events: log.events,
    },
    signal: check.signal('signal'),
  }
}

function checkPublisher(check: OptionChecker, publisher: Publisher): Publisher {
  if (typeof publisher !== 'object' || publisher === null || typeof publisher.publish !== 'function') {
    throw check.wrong('publisher', 'a Publisher, such as publishEach(…) or that of a broker package')
  }
  if (publisher.ordering !== undefined && !['none', 'per-key'].includes(publisher.ordering)) {
    throw check.wrong(
      'publisher',
      `one whose 'ordering' is 'none' or 'per-key' (it is ${nameOf(publisher.ordering)})`,
    )
  }
  return publisher
}

function checkRetry(check: OptionChecker, retry: RetryPolicy | undefined): RetryPolicy {
  if (retry === undefined) return exponentialBackoff()
  if (
    typeof retry !== 'object' ||
    typeof retry.delayMs !== 'function' ||
    !Number.isSafeInteger(retry.attempts) ||
    retry.attempts < 1
  ) {
    throw check.wrong('retry', 'a RetryPolicy, such as exponentialBackoff()')
  }
  return retry
}

function withResolvers(): { promise: Promise<void>; resolve: () => void; reject: (error: unknown) => void } {
  let resolve!: () => void
  let reject!: (error: unknown) => void
  const promise = new Promise<void>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
