import {
  BrokerUnavailableError,
  type OutboxMessage,
  type PublishOptions,
  type PublishResult,
  type Publisher,
} from '@txbox/core'
import { OrderedBatch, RememberedNames, unlessAborted, within } from '@txbox/core/internal'
import { pgBossOptions, type PgBossPublisherOptions } from './pg-boss-options.ts'
import { PublishCall, unavailable, type CallSettings } from './publish-call.ts'

/**
 * Publishes to queues of pg-boss. A message is accepted when its job is committed, or was committed before: the id of the job follows
 * from the id of the message, so that a resend is no second job while pg-boss keeps the first one. Two messages of one id in one queue
 * are one job.
 *
 * - The job of a message of a queue that is in another database than the outbox. In the same database, `boss.send` in the transaction of
 *   the work needs no outbox.
 * - One message of a key is inserted after the other, so that the jobs of a key are created in their order. Workers that run at the same
 *   time keep no order of a key, unless the queue's policy does.
 * - A message that PostgreSQL cannot store unchanged is rejected permanently: a NUL or a lone surrogate in any text, a payload above
 *   `maxMessageBytes`; so is a queue that is no name of pg-boss.
 * - A queue that does not exist rejects the message, which can be tried again; queues are never created. If this publisher has published
 *   to the queue before, one of the last 10,000, no attempt is counted.
 * - A job that the policy of its queue drops rejects the message without counting an attempt.
 * - All other failures throw. It is then unknown which messages were published.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function pgBossPublisher(options: PgBossPublisherOptions): Publisher {
  return new PgBossPublisher({ ...pgBossOptions(options), known: new RememberedNames() })
}

class PgBossPublisher implements Publisher {
  readonly ordering = 'per-key'
  readonly system = 'pg-boss'
  readonly #settings: CallSettings
  readonly #closing = new AbortController()

  constructor(settings: CallSettings) {
    this.#settings = settings
  }

  async publish(
    messages: readonly OutboxMessage[],
    { signal, answered }: PublishOptions,
  ): Promise<readonly PublishResult[]> {
    const stop = AbortSignal.any([signal, this.#closing.signal])
    stop.throwIfAborted()
    const batch = new OrderedBatch(messages)
    await new PublishCall(this.#settings, batch, { signal: stop, answered }).run()
    return batch.results as PublishResult[]
  }

  async check({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    const { boss, confirmTimeoutMs } = this.#settings
    if (boss.schemaVersion === undefined) return
    const late = (): never => {
      throw new BrokerUnavailableError(`pg-boss has not answered within ${confirmTimeoutMs} ms.`)
    }
    const stop = AbortSignal.any([signal, this.#closing.signal])
    try {
      const version = await unlessAborted(within(boss.schemaVersion(), confirmTimeoutMs, late), stop)
      if (version === null)
        throw new BrokerUnavailableError('pg-boss has no tables: boss.start() creates them.')
    } catch (error) {
      stop.throwIfAborted()
      throw unavailable(error)
    }
  }

  /** Ends calls in progress. The `PgBoss` is the caller's, and runs on. */
  async close(): Promise<void> {
    this.#closing.abort(
      new BrokerUnavailableError(
        'The publisher for pg-boss is closed. It is unknown whether messages in flight were published. Create a new publisher.',
      ),
    )
  }
}
