import {
  BrokerUnavailableError,
  InvalidOptionError,
  isTxboxError,
  type OutboxMessage,
  type PublishResult,
  type Publisher,
  type TxboxError,
  type TxboxErrorCode,
} from '@txbox/core'
import { OptionChecker, nameOf, reasonOf } from '@txbox/core/internal'
import { isConnectionError } from './connection-error.ts'
import { isUndecodable } from './readable-payload.ts'

/**
 * A connection failure is an outage, unless messages were accepted after an earlier failure that is not older than
 * `FAILURE_COUNTS_MS`, and the last of these messages was accepted within `SUCCESS_COUNTS_MS`.
 */
const FAILURE_COUNTS_MS = 10_000
/** See {@link FAILURE_COUNTS_MS}. */
const SUCCESS_COUNTS_MS = 1000
/** Errors of what all messages need, such as the inbox of a function that handles the messages itself. */
const UNAVAILABLE: ReadonlySet<TxboxErrorCode> = new Set<TxboxErrorCode>([
  'TXBOX_BROKER_UNAVAILABLE',
  'TXBOX_DATABASE_UNAVAILABLE',
  'TXBOX_DATABASE_ACCESS',
  'TXBOX_SCHEMA',
  'TXBOX_DEDUP_STORE_UNAVAILABLE',
])
/** How long a message waits if its destination is unavailable while other destinations are reachable. */
const UNAVAILABLE_PAUSE_MS = 5000

/**
 * Turns a function into a publisher. An error that the function throws is a rejection of that one message: the message
 * is tried again (after `retryAfterMs`, if the error is a `RetryLaterError`), unless the error is a `PermanentError`,
 * or comes from `text()` or `json()` of a payload that cannot be decoded.
 *
 * A connection error (`ECONNREFUSED`, `ENOTFOUND`, `ECONNRESET` and the like, also inside `cause`) or a
 * `BrokerUnavailableError` is an outage: the whole relay pauses, and no attempt is counted. So is an error of an inbox
 * that the function uses, if the inbox cannot reach or use its database (`DatabaseUnavailableError`,
 * `DatabaseAccessError`, `SchemaError`), and a `DedupStoreUnavailableError`. If other messages are
 * accepted meanwhile, only the destination of this message is unavailable: the message waits with its key for 5 s, and
 * no attempt is counted either.
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
          // When the relay has to stop, messages that have not begun stay without a result, which throwing reports.
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

/** Tracks whether all destinations are unavailable, or only some of them. */
class Reach {
  #succeededAt = -Infinity
  #failedAt = -Infinity
  /** Whether messages were accepted between two failures. */
  #isPartial = false

  succeeded(now: number): void {
    this.#succeededAt = now
  }

  /** Must be called when a destination is unavailable. @returns whether other destinations are reachable meanwhile. */
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
    // The relay has to stop: the result of the message is unknown.
    if (signal.aborted && !isTimeout(signal.reason)) throw error
    const code = isTxboxError(error) ? error.code : undefined
    if (code === undefined ? isConnectionError(error) : UNAVAILABLE.has(code)) {
      if (!reach.failed(performance.now())) throw outage(error)
      return {
        status: 'rejected',
        error,
        retryable: true,
        counted: false,
        retryAfterMs: UNAVAILABLE_PAUSE_MS,
      }
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
  return new BrokerUnavailableError(`The destination cannot be reached: ${reasonOf(error)}.`, {
    cause: error,
  })
}

function isTimeout(reason: unknown): boolean {
  return typeof reason === 'object' && reason !== null && Reflect.get(reason, 'name') === 'TimeoutError'
}
