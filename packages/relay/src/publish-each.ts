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
import {
  OptionChecker,
  isConnectionError,
  isFullDisk,
  isUndecodable,
  nameOf,
  readOnlyPart,
  reasonOf,
} from '@txbox/core/internal'

/**
 * A connection failure is an outage, unless messages were accepted since the failures began, the last of them within this
 * time. After this time without a failure, the next one counts as the first. Longer than the pauses of the relay and of a message.
 */
const RECENT_MS = 10_000
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
 * `DatabaseAccessError`, `SchemaError`), and a `DedupStoreUnavailableError`. If other messages of the
 * same call are accepted, or other messages were accepted since the failures began, less than 10 s ago, only the
 * destination of this message is unavailable: the message waits with its key for 5 s, and no attempt is counted either.
 *
 * A function call that is still in progress when the relay aborts its signal, because no message of the batch was finished
 * for `publishTimeoutMs`, and throws then, is a rejection.
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
  // In an outage, a call tries as few messages as it can, but more than one: the first may have a destination of its own.
  const mostDoubtful = Math.max(2, concurrency)
  const reach = new Reach()

  return {
    async publish(messages, { signal, answered }) {
      const results: PublishResult[] = []
      const order = reach.isInDoubt(performance.now()) ? topicsFirst(messages) : [...messages.keys()]
      /** Failures of which it is not known whether they are an outage. */
      let doubtful: { readonly index: number; readonly error: unknown }[] = []
      const settle = (index: number, result: PublishResult): void => {
        results[index] = result
        answered?.(index, result)
      }
      const succeed = (): void => {
        reach.succeeded(performance.now())
        settleDoubtful()
      }
      const settleDoubtful = (): void => {
        for (const { index, error } of doubtful) settle(index, unavailable(error))
        doubtful = []
      }
      let next = 0
      const worker = async (): Promise<void> => {
        while (next < order.length && doubtful.length < mostDoubtful) {
          // When the relay has to stop, messages that have not begun stay without a result, which throwing reports.
          signal.throwIfAborted()
          const index = order[next++]!
          const result = await publishOne(publish, messages[index]!, signal)
          if (result.status === 'unavailable') {
            doubtful.push({ index, error: result.error })
            if (reach.failed(performance.now())) settleDoubtful()
            continue
          }
          settle(index, result)
          if (result.status !== 'accepted') continue
          succeed()
        }
      }
      const workers = Array.from({ length: Math.min(concurrency, messages.length) }, worker)
      const outcomes = await Promise.allSettled(workers)
      for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
      const isWhole = next === order.length && doubtful.length < mostDoubtful
      if (isWhole && results.some((result) => result?.status === 'accepted')) succeed()
      if (doubtful.length > 0) throw outage(doubtful[0]!.error)
      return results
    },
  }
}

/** Tracks whether all destinations are unavailable, or only some of them. */
class Reach {
  #succeededAt = -Infinity
  #failedAt = -Infinity
  #failingSince = Infinity

  succeeded(now: number): void {
    this.#succeededAt = now
  }

  /** Must be called when a destination is unavailable. @returns whether other destinations are reachable meanwhile. */
  failed(now: number): boolean {
    if (!this.isInDoubt(now)) this.#failingSince = now
    this.#failedAt = now
    return this.#succeededAt >= this.#failingSince && now - this.#succeededAt < RECENT_MS
  }

  /** Whether a destination was unavailable recently. */
  isInDoubt(now: number): boolean {
    return now - this.#failedAt < RECENT_MS
  }
}

/** The places of the messages, first those of one message of each topic: topics often have destinations of their own. */
function topicsFirst(messages: readonly OutboxMessage[]): number[] {
  const first = new Map<string, number>()
  for (const [index, { topic }] of messages.entries()) if (!first.has(topic)) first.set(topic, index)
  const places = new Set(first.values())
  return [...places, ...[...messages.keys()].filter((index) => !places.has(index))]
}

async function publishOne(
  publish: (message: OutboxMessage, options: { signal: AbortSignal }) => unknown,
  message: OutboxMessage,
  signal: AbortSignal,
): Promise<PublishResult | { readonly status: 'unavailable'; readonly error: unknown }> {
  try {
    await publish(message, { signal })
    return { status: 'accepted' }
  } catch (error) {
    // The relay has to stop: the result of the message is unknown.
    if (signal.aborted && !isTimeout(signal.reason)) throw error
    const code = isTxboxError(error) ? error.code : undefined
    if (code === undefined ? isOutage(error) : UNAVAILABLE.has(code)) {
      return { status: 'unavailable', error }
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

/** Whether an error that is not of txbox is an outage of the destination, or of a database that the function uses. */
function isOutage(error: unknown): boolean {
  return isConnectionError(error) || isFullDisk(error) || readOnlyPart(error) === 'server'
}

function unavailable(error: unknown): PublishResult {
  return { status: 'rejected', error, retryable: true, counted: false, retryAfterMs: UNAVAILABLE_PAUSE_MS }
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
