import type { InboxMessage } from '@txbox/core'
import { LifeCycle, OptionChecker, stoppedBy } from '@txbox/core/internal'
import type {
  BatchHandler,
  BatchOptions,
  DatabaseConsumerOptions,
  InboxConsumerOptions,
  MessageHandler,
  PlainConsumerOptions,
  TransactionBatchHandler,
  TransactionHandler,
} from './options/consumer-options.ts'
import { ConsumerRun } from './consumer-run.ts'
import {
  checkConsumerOptions,
  concurrencyOption,
  type ConsumerSettings,
} from './options/consumer-settings.ts'
import type { Consumer, ConsumerEvents, ConsumerFigures } from './options/consumer.ts'
import type { AnyBatch, AnyDatabase, AnyInbox, DescribedOptions } from './options/described-options.ts'

/**
 * Creates a consumer, which receives deliveries from a source, passes them to a handler, and settles them:
 *
 * - with `inbox`: effect once. The claim commits in the handler's transaction, and the delivery is accepted afterwards.
 * - with `database`, and a source that settles in a transaction: effect once, without a claim.
 * - with neither: at least once, optionally with `dedup` to recognize duplicates; or at most once.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option, or options that exclude each other.
 */
export function createConsumer<Tx, P = unknown>(
  options: InboxConsumerOptions<Tx, P> & { batch: BatchOptions; handler: TransactionBatchHandler<Tx, P> },
): Consumer<InboxMessage<P>>
/**
 * Creates a consumer with an inbox: effect once. The claim commits in the handler's transaction.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option, or options that exclude each other.
 */
export function createConsumer<Tx, P = unknown>(
  options: InboxConsumerOptions<Tx, P> & { handler: TransactionHandler<Tx, P> },
): Consumer<InboxMessage<P>>
/**
 * Creates a consumer that handles several messages in one transaction, in which the source settles the deliveries: effect once.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option, or options that exclude each other.
 */
export function createConsumer<Tx, P = unknown>(
  options: DatabaseConsumerOptions<Tx, P> & { batch: BatchOptions; handler: TransactionBatchHandler<Tx, P> },
): Consumer<InboxMessage<P>>
/**
 * Creates a consumer whose source settles the delivery in the handler's transaction: effect once.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option, or options that exclude each other.
 */
export function createConsumer<Tx, P = unknown>(
  options: DatabaseConsumerOptions<Tx, P> & { handler: TransactionHandler<Tx, P> },
): Consumer<InboxMessage<P>>
/**
 * Creates a consumer that handles several messages without a transaction of txbox: at least once, or at most once.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option, or options that exclude each other.
 */
export function createConsumer<P = unknown>(
  options: PlainConsumerOptions<P> & { batch: BatchOptions; handler: BatchHandler<P> },
): Consumer<InboxMessage<P>>
/**
 * Creates a consumer that handles messages without a transaction of txbox: at least once, or at most once.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option, or options that exclude each other.
 */
export function createConsumer<P = unknown>(
  options: PlainConsumerOptions<P> & { handler: MessageHandler<P> },
): Consumer<InboxMessage<P>>
/**
 * Creates a consumer of any of these kinds. The compiler shows only the error of the last overload: this one names the wrong
 * option, whatever the kind of consumer is.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option, or options that exclude each other.
 */
export function createConsumer<P, I extends AnyInbox<P>, D extends AnyDatabase, B extends AnyBatch>(
  options: DescribedOptions<P, I, D, B>,
): Consumer<InboxMessage<P>>
export function createConsumer(options: object): Consumer {
  const settings = checkConsumerOptions(options)
  return stoppedBy(settings.signal, new StartableConsumer(settings))
}

class StartableConsumer extends LifeCycle implements Consumer {
  readonly #settings: ConsumerSettings
  readonly #run: ConsumerRun
  #isStarted = false

  constructor(settings: ConsumerSettings) {
    super('Consumer')
    this.#settings = settings
    this.#run = new ConsumerRun(settings)
  }

  get figures(): ConsumerFigures {
    return this.#run.figures
  }

  get concurrency(): number {
    return this.#run.permits.concurrency
  }

  set concurrency(concurrency: number) {
    const { batch, prefetch } = this.#settings
    const check = new OptionChecker('consumer', { concurrency })
    if (batch !== undefined) throw check.wrong('concurrency', 'left as it is, with batches')
    if (concurrency > prefetch) {
      const most = `a whole number from 1 to ${prefetch}, the option 'prefetch', which is fixed while the consumer runs`
      throw check.wrong('concurrency', most)
    }
    this.#run.permits.concurrency = concurrencyOption(check, prefetch)
  }

  async start(): Promise<void> {
    this.refuseStopped('start')
    if (!this.#isStarted) {
      this.#settings.log.started(this.#settings.source)
      void this.#warn()
    }
    this.#isStarted = true
    await this.#run.start()
  }

  pause(): void {
    this.#run.setPaused(true)
  }

  resume(): void {
    this.#run.setPaused(false)
  }

  on<E extends keyof ConsumerEvents>(event: E, listener: (event: ConsumerEvents[E]) => void): () => void {
    return this.#settings.log.events.on(event, listener)
  }

  protected async end(timeoutMs: number): Promise<void> {
    await this.#run.stop(timeoutMs)
    this.#settings.log.stopped()
  }

  /** Logs the warnings of the dedup stores. The start of the consumer does not wait for the stores. */
  async #warn(): Promise<void> {
    const { dedup, log, source } = this.#settings
    try {
      const warnings = await Promise.all(dedup.map(async (store) => store.warning?.()))
      for (const warning of warnings) if (warning !== undefined) log.warned(warning, 'dedup-store')
    } catch (error) {
      log.events.emit('error', { error, source: source.name })
    }
  }
}
