import { PermanentError, RetryLaterError } from '../errors/errors.ts'
import { reasonOf } from '../errors/reason-of.ts'
import type { OutboxMessage } from '../messages/messages.ts'
import type { PublishResult } from '../ports/publisher.ts'
import { oneLine } from '../text/one-line.ts'

/** The maximum length of the reason for which a function of the user has failed, in characters. */
const REASON_CHARACTERS = 300

/**
 * Prepares a message for its broker.
 *
 * @param prepare returns what is sent. It throws a `PermanentError` for a message that the broker can never take unchanged, and a
 *   `RetryLaterError` for a message that a later attempt may prepare.
 * @returns what is sent, or the rejection of the message.
 */
export function outgoingOrRejected<T extends object>(prepare: () => T): T | PublishResult {
  try {
    return prepare()
  } catch (error) {
    const retryable = error instanceof RetryLaterError
    if (!retryable && !(error instanceof PermanentError)) throw error
    return { status: 'rejected', retryable, error }
  }
}

/**
 * Returns the destination that an option of the user chooses for a message.
 *
 * @param option the name of the option, and of the destination, such as `topic`.
 * @throws {RetryLaterError} if the function fails, or returns something other than text.
 */
export function destinationOf(
  message: OutboxMessage,
  option: string,
  choose: (message: OutboxMessage) => unknown,
): string {
  try {
    const destination = choose(message)
    if (typeof destination === 'string') return destination
    throw new TypeError(`it returned a value of the type ${typeof destination}`)
  } catch (error) {
    const reason = reasonOf(error, REASON_CHARACTERS)
    throw new RetryLaterError({
      message: `Message ${oneLine(message.id)} has no ${option}, because the option '${option}' failed: ${reason}`,
      cause: error,
    })
  }
}
