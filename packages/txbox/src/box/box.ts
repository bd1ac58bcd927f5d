import { DatabaseUnavailableError, InvalidOptionError } from '@txbox/core'
import {
  Deadline,
  GAUGES_END_MS,
  LifeCycle,
  OptionChecker,
  observeTables,
  unlessAborted,
  untilTime,
  within,
} from '@txbox/core/internal'
import { hours, type Inbox } from '@txbox/inbox'
import { createDeadLetters } from '@txbox/relay'
import { ambientInbox } from './ambient-inbox.ts'
import { BoxHealth } from './box-health.ts'
import type { BoxParts, Part } from './box-parts.ts'
import type { BoxSettings } from './box-settings.ts'
import { BoxTransactions, type BoxTransactOptions, type TransactionTools } from './box-transactions.ts'
import { consumerOptions } from './local-parts.ts'
import { drainBox } from './drain-box.ts'
import { prepareTables } from './prepare-tables.ts'
import { StartError } from './start-error.ts'
import type { TxboxDrained, TxboxHealth, TxboxTrouble } from './txbox.ts'

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

/** The share of the time of a stop in which the box ends without its parts, and its maximum. */
const END_TIME = { share: 0.1, maxMs: 250 }

interface Tools extends TransactionTools {
  readonly parts: BoxParts
}

/** A box from its creation to its end. `Txbox` documents its methods. */
export class Box extends LifeCycle {
  readonly deadLetters: ReturnType<typeof createDeadLetters>
  readonly #settings: BoxSettings
  readonly #tools: Tools
  readonly #health: BoxHealth
  readonly #transactions: BoxTransactions
  readonly #inboxes = new Map<string, Inbox<unknown>>()
  readonly #stopping = new AbortController()
  readonly #deadline = new Deadline()
  #endGauges: (() => Promise<void>) | undefined
  #prepared: Promise<void> | undefined
  #started: Promise<void> | undefined
  #isRunning = false
  #ended: Promise<void> | undefined

  constructor(settings: BoxSettings, tools: Tools) {
    super('Txbox')
    this.#settings = settings
    this.#tools = tools
    this.#health = new BoxHealth(tools.parts, settings.ports, settings.logger)
    this.#transactions = new BoxTransactions(settings.ports, tools)
    this.deadLetters = createDeadLetters({ database: tools.database })
  }

  get consumers(): BoxParts['consumers'] {
    return this.#tools.parts.consumers
  }

  get sources(): BoxParts['sources'] {
    return this.#tools.parts.sources
  }

  get relay(): BoxParts['relay'] {
    return this.#tools.parts.relay
  }

  get gc(): BoxParts['gc'] {
    return this.#tools.parts.gc
  }

  inbox(consumer: string): Inbox<unknown> {
    const { ambient, database } = this.#tools
    const known = this.#inboxes.get(consumer)
    if (known !== undefined) return known
    const inbox = ambientInbox({ ambient, database, ...this.#settings }, consumer)
    this.#inboxes.set(consumer, inbox)
    return inbox
  }

  on(event: 'trouble', listener: (event: TxboxTrouble) => void): () => void {
    new OptionChecker('on', { event }).oneOf('event', ['trouble'], 'trouble')
    return this.#health.events.on(event, listener)
  }

  async start(): Promise<void> {
    this.refuseStopped('start')
    this.#started ??= this.#tools.ambient.outside(() => this.#start())
    try {
      await this.#started
    } catch (error) {
      this.#started = undefined
      throw error
    }
  }

  transact<R>(work: (tx: unknown) => Promise<R>, options?: BoxTransactOptions): Promise<R> {
    return this.#transactions.transact(work, options)
  }

  publish(...args: readonly [unknown] | readonly [object, unknown]): Promise<unknown> {
    return this.#transactions.publish(...args)
  }

  async drain(options: { deadlineMs?: number | undefined } = {}): Promise<TxboxDrained> {
    const check = new OptionChecker('drain', options).known('deadlineMs')
    const { deadlineMs } = options
    if (deadlineMs !== undefined)
      check.milliseconds('deadlineMs', { min: 1, max: hours(24), default: Number.NaN })
    this.refuseStopped('drain')
    const endsAt = performance.now() + (deadlineMs ?? Infinity)
    const { ambient, parts } = this.#tools
    return ambient.outside(async () => {
      await untilTime(this.#prepare(), endsAt, () => {
        throw new DatabaseUnavailableError(
          `drain: the tables and the subscriptions of the box were not ready within ${deadlineMs} ms, so nothing was handled. If they ` +
            'are created or updated, that goes on. Call drain again.',
        )
      })
      return drainBox(parts, this.#settings.ports, endsAt)
    })
  }

  health(): Promise<TxboxHealth> {
    const idle = this.isStopping
      ? 'The box has been stopped.'
      : this.#isRunning
        ? undefined
        : 'The box has not been started.'
    return this.#health.check(idle)
  }

  override stop(options: { timeoutMs?: number | undefined } = {}): Promise<void> {
    const isGiven = options.timeoutMs !== undefined
    return super.stop(isGiven ? options : { ...options, timeoutMs: this.#settings.stopTimeoutMs })
  }

  protected async end(timeoutMs: number): Promise<void> {
    this.#deadline.within(timeoutMs)
    this.#stopping.abort(this.#stopped('start'))
    const forParts = timeoutMs - Math.min(timeoutMs * END_TIME.share, END_TIME.maxMs)
    // Another process may read the tables while the parts end.
    void this.#endGauges?.()
    const parts = this.#tools.parts.groups.flat()
    const ends = parts.map((part) => part.stop({ timeoutMs: forParts }))
    await this.#deadline.waitFor((this.#ended ??= this.#end(ends)))
    this.#deadline.clear()
  }

  async #end(ends: readonly Promise<void>[]): Promise<void> {
    for (const name of SIGNALS) process.removeListener(name, this.#onSignal)
    await Promise.allSettled([...ends, this.#started])
    // A start that was in progress may have begun the gauges only now.
    const gaugesEnded = this.#endGauges?.() ?? Promise.resolve()
    const { relay } = this.#tools.parts
    // Without a relay, nobody else closes the publisher.
    if (relay === undefined) await this.#settings.publisher?.close?.()
    await within(gaugesEnded, GAUGES_END_MS, () => undefined)
  }

  async #start(): Promise<void> {
    await this.#prepare()
    const { ports, findTelemetry } = this.#settings
    this.#endGauges ??= observeTables(ports, findTelemetry)
    const { groups } = this.#tools.parts
    for (const group of groups) {
      const starts = await Promise.allSettled(group.map((part) => part.start()))
      const failed = starts.findIndex(({ status }) => status === 'rejected')
      if (this.isStopping) throw this.#stopped('start')
      if (failed >= 0) await this.#giveUp(group[failed]!, (starts[failed] as PromiseRejectedResult).reason)
    }
    this.#isRunning = true
    if (!this.#settings.signals) return
    for (const name of SIGNALS) process.once(name, this.#onSignal)
  }

  readonly #onSignal = (): void => void this.stop()

  async #giveUp({ name }: Part, reason: unknown): Promise<never> {
    // The start itself is over: the stop must not wait for it.
    this.#started = undefined
    await this.stop()
    throw new StartError(name, reason)
  }

  /** Makes or checks the tables, and registers the consumers. Starts and drains at the same time share it. */
  #prepare(): Promise<void> {
    this.#prepared ??= this.#preparing().finally(() => (this.#prepared = undefined))
    return unlessAborted(this.#prepared, this.#stopping.signal)
  }

  async #preparing(): Promise<void> {
    const { ports, consumers } = this.#settings
    await prepareTables(this.#settings, this.#stopping.signal)
    for (const [name, entry] of consumers) {
      await ports
        .subscriptions()
        .register(name, Object.keys(consumerOptions(name, entry)['handlers'] as object))
    }
  }

  #stopped(where: string): InvalidOptionError {
    return new InvalidOptionError(`${where}: this txbox has been stopped. Create another with createTxbox.`)
  }
}
