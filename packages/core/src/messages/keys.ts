import { hash } from 'node:crypto'
import { InvalidMessageError, InvalidOptionError } from '../errors/errors.ts'
import { LIMITS } from '../options/limits.ts'
import type { AnyMessage, InboxMessage, MessageIdentity } from './messages.ts'
import { oneLine } from '../text/one-line.ts'
import { nameOf } from '../text/name-of.ts'

/** The identity of a message: deliveries with the same key are the same message. A string, or several parts. */
export type Key = string | readonly [string, ...string[]]

export type KeyExtractor<M extends AnyMessage = AnyMessage> = (message: M) => string | readonly string[]

/**
 * A checked key. `text` is the key as outcomes and logs show it. `stored` is the value in the table, which always fits
 * its column.
 */
export interface InboxKey {
  readonly text: string
  readonly stored: string
}

/**
 * Returns a key extractor that uses the message's `id`, together with its `source` if the message has one (CloudEvents
 * 1.0: `source` + `id` is unique for each distinct event).
 */
export function messageId(): KeyExtractor<MessageIdentity> {
  return ({ source, id }) => {
    if (id === undefined || id === null) {
      throw new InvalidMessageError(
        "The message has no 'id', which is its key by default. Set 'id', or pass the option 'key' to take the key from " +
          'another part of the message. Nothing was written.',
      )
    }
    if (source !== undefined && source !== null) return [source, id]
    if (!Array.isArray(id)) return id
    // As a key, a list could be that of another message, which has a source.
    throw new InvalidMessageError("The message's id is a list. Expected text. Nothing was written.")
  }
}

/**
 * Returns a key extractor that uses a key from your domain, such as the number of an order together with a step:
 * `['order-7', 'charge']`. Composite keys are equal only if they have the same parts: `['a', 'bc']` and `['ab', 'c']`
 * differ.
 */
export function businessKey<M extends AnyMessage = InboxMessage>(
  key: (message: M) => string | readonly string[],
): KeyExtractor<M> {
  if (typeof key !== 'function') {
    throw new InvalidOptionError(`businessKey: expected a function from message to key, not ${nameOf(key)}.`)
  }
  return key
}

/** Returns the SHA-256 of an unparsed body in hexadecimal: a key for messages that have no id. */
export function sha256OfBody(body: Uint8Array | string): string {
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) {
    throw new InvalidMessageError(`sha256OfBody: expected bytes or text, not ${nameOf(body)}.`)
  }
  if (typeof body === 'string' && !body.isWellFormed()) {
    throw new InvalidMessageError(
      'sha256OfBody: the text contains a lone surrogate, so it cannot be encoded as UTF-8. Pass the bytes.',
    )
  }
  return sha256(body)
}

const HASHED = 'sha256:'

/**
 * Checks a key and returns its text and its stored form. Two stored forms are equal exactly if the keys are equal
 * (except for a collision of SHA-256).
 *
 * A plain key is stored as it is, and a composite key as a JSON array. A key that does not fit is stored as a hash. So
 * is a plain key that looks like one of the other two forms, or that contains a NUL, which PostgreSQL's type text
 * cannot hold.
 *
 * @throws {InvalidMessageError} for a key that is empty, missing, or not text.
 */
export function inboxKey(key: unknown, consumer: string): InboxKey {
  if (typeof key === 'string') {
    checkPart(key, consumer, 'its key')
    const plain = !key.startsWith('[') && !key.startsWith(HASHED) && !key.includes('\0') && fits(key)
    return { text: key, stored: plain ? key : HASHED + sha256(`text:${key}`) }
  }
  if (!Array.isArray(key) || key.length === 0) {
    throw new InvalidMessageError(
      `The message has no key for consumer '${oneLine(consumer)}': expected a string or a list of strings, not ` +
        `${Array.isArray(key) ? 'an empty list' : nameOf(key)}. Nothing was written.`,
    )
  }
  if (key.length > LIMITS.keyParts) {
    throw new InvalidMessageError(
      `The message's key for consumer '${oneLine(consumer)}' has ${key.length} parts; at most ${LIMITS.keyParts} are allowed. Nothing was written.`,
    )
  }
  for (const [index, part] of key.entries()) {
    checkPart(part, consumer, `part ${index + 1} of its composite key`)
  }
  // The parts that were checked: the list itself may have a toJSON.
  const text = JSON.stringify([...(key as unknown[])])
  return { text, stored: fits(text) ? text : HASHED + sha256(`list:${text}`) }
}

/**
 * Returns 64 hexadecimal digits that are the same for every delivery of one message to one consumer, and differ for all
 * other messages and consumers: for calls to systems that accept an idempotency key.
 */
export function idempotencyKey(consumer: string, key: InboxKey): string {
  return sha256(JSON.stringify([consumer, key.stored]))
}

function checkPart(part: unknown, consumer: string, what: string): void {
  if (typeof part !== 'string' || part === '') {
    throw new InvalidMessageError(
      `The message has no usable key for consumer '${oneLine(consumer)}': ${what} must be a non-empty string, not ` +
        `${nameOf(part)}. Nothing was written.`,
    )
  }
  if (!part.isWellFormed()) {
    throw new InvalidMessageError(
      `The message has no usable key for consumer '${oneLine(consumer)}': ${what} contains a lone surrogate, so it cannot be ` +
        'encoded as UTF-8. Nothing was written.',
    )
  }
}

function fits(text: string): boolean {
  const { storedKeyBytes: maxBytes } = LIMITS
  // A UTF-16 code unit takes at most three bytes in UTF-8.
  return text.length * 3 <= maxBytes || (text.length <= maxBytes && Buffer.byteLength(text) <= maxBytes)
}

function sha256(data: string | Uint8Array): string {
  return hash('sha256', data)
}
