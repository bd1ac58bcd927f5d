import { InvalidMessageError, type Delivery, type InboxMessage } from '@txbox/core'
import { reasonOf } from '@txbox/core/internal'

/** The message of a delivery, and why it cannot be handled, if it cannot. */
export interface Identified {
  readonly message: InboxMessage
  readonly problem: unknown
}

/**
 * Gives a message without an id the text of its key as its id, so that counts, logs and dead letters can name the message.
 *
 * @param keyTextOf extracts the key, or throws if the message has none.
 */
export function identified(
  { message, undecodable }: Delivery,
  keyTextOf: (message: InboxMessage) => string,
): Identified {
  if (message.id || undecodable !== undefined) return { message, problem: undecodable }
  try {
    return { message: withId(message, keyTextOf(message)), problem: undefined }
  } catch (cause) {
    const text =
      `The message has no id, and no key that could stand in for the id (${reasonOf(cause, 300)}). Let the producer set an id that is ` +
      "the same in every resend, or take the key from another part of the message: by the option 'key' of the inbox, or without an " +
      "inbox of the consumer. A source of RabbitMQ can also take the id, by its option 'id'."
    return { message, problem: new InvalidMessageError(text, { cause }) }
  }
}

/** Returns the message with this id if it has none. */
export function withId(message: InboxMessage, id: string): InboxMessage {
  return message.id ? message : { ...message, id }
}
