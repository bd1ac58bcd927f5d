import {
  InvalidOptionError,
  OptionChecker,
  isTxboxError,
  nameOf,
  type OutboxMessage,
  type PublishResult,
  type Publisher,
} from '@txbox/core'
import { isUndecodable } from './relayed-message.ts'

/**
 * A function as a publisher. What it throws is a rejection of that one message: to be tried again, unless it is a
 * `PermanentError`, or comes from `text()` or `json()` of a payload that cannot be decoded; after `retryAfterMs`, if it is
 * a `RetryLaterError`.
 *
 * @throws {InvalidOptionError} for a wrong option.
 */
export function publishEach(
  publish: (message: OutboxMessage, options: { signal: AbortSignal }) => unknown,
  options: {
    /** How many calls at a time, 1 to 10 000. @default 10 */
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

  return {
    async publish(messages, { signal }) {
      const results: PublishResult[] = []
      let next = 0
      const worker = async (): Promise<void> => {
        while (next < messages.length) {
          // Once it is to stop, what has not begun is left unknown: throwing says so.
          signal.throwIfAborted()
          const index = next++
          results[index] = await publishOne(publish, messages[index]!, signal)
        }
      }
      await Promise.all(Array.from({ length: Math.min(concurrency, messages.length) }, worker))
      return results
    },
  }
}

async function publishOne(
  publish: (message: OutboxMessage, options: { signal: AbortSignal }) => unknown,
  message: OutboxMessage,
  signal: AbortSignal,
): Promise<PublishResult> {
  try {
    await publish(message, { signal })
    return { status: 'accepted' }
  } catch (error) {
    const code = isTxboxError(error) ? error.code : undefined
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
