import {
  BrokerUnavailableError,
  InvalidOptionError,
  isTxboxError,
  type OutboxMessage,
  type PublishResult,
  type Publisher,
  type TxboxError,
} from '@txbox/core'
import { OptionChecker, nameOf, reasonOf } from '@txbox/core/internal'
import { isConnectionError } from './connection-error.ts'
import { isUndecodable } from './relayed-message.ts'

/** A failure to connect is an outage, unless messages got through since a failure that is no older than this (ms), */
const FAILURE_COUNTS_MS = 10_000
/** and the last of those messages got through no longer ago than this (ms). */
const SUCCESS_COUNTS_MS = 1000
/** How long a message waits if its destination is unavailable while other destinations are reached, in milliseconds. */
const AWAY_PAUSE_MS = 5000

/**
 * Makes a publisher of a function. An error that the function throws is a rejection of that one message: the message is
 * tried again (after `retryAfterMs`, if the error is a `RetryLaterError`), unless the error is a `PermanentError`, or comes
 * from `text()` or `json()` of a payload that cannot be decoded.
 *
 * An error of connecting (`ECONNREFUSED`, `ENOTFOUND`, `ECONNRESET` and the like, also inside `cause`), or a
 * `BrokerUnavailableError`, is an outage: the relay pauses as a whole, and no attempt is counted. If other messages get
 * through meanwhile, only the destination of this message is unavailable: the message waits with its key for 5 s, and no
 * attempt is counted either.
 *
 * A call that is still in progress when the relay aborts its signal after `publishTimeoutMs`, and throws then, is a
 * rejection.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function publishEach(
  publish: (message: OutboxMessage, options: { signal: AbortSignal }) => unknown,
  options: {
    /** The maximum number of concurrent calls for each batch, 1 to 10,000. @default 10 */
    concurrency?: number
  } = {},
): Publisher {
  if (typeof publish !== 'function') {
    throw new InvalidOptionError(
      `publishEach: expected a function that publishes a message, not ${nameOf(publish)}.`,
    )
  }
  const concurrency = new OptionChecker('publishEach', options)
    .known('concurrency')
    .integer('concurrency', { min: 1, max: 10_000, default: 10 })
  const reach = new Reach()

  return {
    async publish(messages, { signal, answered }) {
      const results: PublishResult[] = []
      let next = 0
      const worker = async (): Promise<void> => {
        while (next < messages.length) {
          // Messages that have not begun are left without a result once the relay has to stop: throwing says so.
          signal.throwIfAborted()
          const index = next++
          const result = await publishOne(publish, messages[index]!, signal, reach)
          results[index] = result
          answered?.(index, result)
        }
      }
      const workers = Array.from({ length: Math.min(concurrency, messages.length) }, worker)
      const outcomes = await Promise.allSettled(workers)
      for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
      return results
    },
  }
}

/** Tracks whether the other side is unavailable as a whole, or only some of its destinations are. */
class Reach {
  #succeededAt = -Infinity
  #failedAt = -Infinity
  /** Whether messages got through between two failures. */
  #isPartial = false

  succeeded(now: number): void {
    this.#succeededAt = now
  }

  /** Must be called when a destination is unavailable. @returns whether other destinations are reached meanwhile. */
  failed(now: number): boolean {
    const isRecent = now - this.#failedAt < FAILURE_COUNTS_MS
    this.#isPartial = isRecent && (this.#isPartial || this.#succeededAt >= this.#failedAt)
    this.#failedAt = now
    return this.#isPartial && now - this.#succeededAt < SUCCESS_COUNTS_MS
  }
}

async function publishOne(
  publish: (message: OutboxMessage, options: { signal: AbortSignal }) => unknown,
  message: OutboxMessage,
  signal: AbortSignal,
  reach: Reach,
): Promise<PublishResult> {
  try {
    await publish(message, { signal })
    reach.succeeded(performance.now())
    return { status: 'accepted' }
  } catch (error) {
    // The relay has to stop: nothing is known of the message.
    if (signal.aborted && !isTimeout(signal.reason)) throw error
    const code = isTxboxError(error) ? error.code : undefined
    if (code === 'TXBOX_BROKER_UNAVAILABLE' || (code === undefined && isConnectionError(error))) {
      if (!reach.failed(performance.now())) throw outage(error)
      return { status: 'rejected', error, retryable: true, counted: false, retryAfterMs: AWAY_PAUSE_MS }
    }
    const retryAfterMs =
      code === 'TXBOX_RETRY_LATER' ? Number(Reflect.get(error as object, 'retryAfterMs')) : 0
    return {
      status: 'rejected',
      error,
      retryable: code !== 'TXBOX_PERMANENT' && !isUndecodable(error),
      ...(retryAfterMs > 0 ? { retryAfterMs } : {}),
    }
  }
}

function outage(error: unknown): TxboxError {
  if (isTxboxError(error)) return error
  return new BrokerUnavailableError(`The other side cannot be reached: ${reasonOf(error)}.`, { cause: error })
}

function isTimeout(reason: unknown): boolean {
  return typeof reason === 'object' && reason !== null && Reflect.get(reason, 'name') === 'TimeoutError'
}
