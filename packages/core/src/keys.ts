import { hash } from 'node:crypto'
import { InvalidMessageError, InvalidOptionError } from './errors.ts'
import { LIMITS } from './limits.ts'
import type { AnyMessage, InboxMessage, MessageIdentity } from './messages.ts'
import { nameOf } from './options.ts'

/** What makes two deliveries the same message: one text, or several parts that never run into each other. */
export type Key = string | readonly [string, ...string[]]

/** Draws the key from a message. */
export type KeyExtractor<M extends AnyMessage = AnyMessage> = (message: M) => string | readonly string[]

/** A key, checked. `text` is what people see; `stored` is what the table holds, and is never longer than its column. */
export interface InboxKey {
  readonly text: string
  readonly stored: string
}

/**
 * The message's own identity: its `id`, together with its `source` when it has one (CloudEvents 1.0: `source` + `id`
 * is unique for each distinct event).
 */
export function messageId(): KeyExtractor<MessageIdentity> {
  return ({ source, id }) => {
    if (source !== undefined && source !== null) return [source, id]
    if (!Array.isArray(id)) return id
    // As a key, a list could be that of another message, which has a source.
    throw new InvalidMessageError("The message's id is a list. Expected text. Nothing was written.")
  }
}

/**
 * A key of your own making, such as the number of an order together with the step: `['order-7', 'charge']`. The parts
 * of a composite key never run into each other.
 */
export function businessKey<M extends AnyMessage = InboxMessage>(
  key: (message: M) => string | readonly string[],
): KeyExtractor<M> {
  if (typeof key !== 'function') {
    throw new InvalidOptionError(`businessKey: expected a function from message to key, not ${nameOf(key)}.`)
  }
  return key
}

/** The SHA-256 of a body as it came, in hexadecimal: a key for messages that have no id. */
export function sha256OfBody(body: Uint8Array | string): string {
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) {
    throw new InvalidMessageError(`sha256OfBody: expected bytes or text, not ${nameOf(body)}.`)
  }
  if (typeof body === 'string' && !body.isWellFormed()) {
    throw new InvalidMessageError(
      'sha256OfBody: the text holds a lone surrogate, so it has no UTF-8 form. Pass the bytes.',
    )
  }
  return sha256(body)
}

const HASHED = 'sha256:'

/**
 * Checks a key and finds its stored form. The stored form is one-to-one: equal exactly when the keys are equal (up to
 * a collision of SHA-256).
 *
 * A plain key is stored as it is. A composite one is stored as a JSON array. Both are stored as a hash when they do not
 * fit, and so is a plain key that looks like one of the other two forms, or holds a NUL, which PostgreSQL's text
 * cannot.
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
      `The message has no key for consumer '${consumer}': expected text or a list of texts, not ` +
        `${Array.isArray(key) ? 'an empty list' : nameOf(key)}. Nothing was written.`,
    )
  }
  if (key.length > LIMITS.keyParts) {
    throw new InvalidMessageError(
      `The message's key for consumer '${consumer}' has ${key.length} parts; at most ${LIMITS.keyParts} are allowed.`,
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
 * The same for every delivery of one message to one consumer, and different for all others: 64 hexadecimal digits,
 * for calls to systems that take an idempotency key.
 */
export function idempotencyKey(consumer: string, key: InboxKey): string {
  return sha256(JSON.stringify([consumer, key.stored]))
}

function checkPart(part: unknown, consumer: string, what: string): void {
  if (typeof part !== 'string' || part === '') {
    throw new InvalidMessageError(
      `The message cannot be told apart from others for consumer '${consumer}': ${what} must be text that is not ` +
        `empty, not ${nameOf(part)}. Nothing was written.`,
    )
  }
  if (!part.isWellFormed()) {
    throw new InvalidMessageError(
      `The message cannot be told apart from others for consumer '${consumer}': ${what} holds a lone surrogate, so ` +
        'it has no UTF-8 form. Nothing was written.',
    )
  }
}

function fits(text: string): boolean {
  const { storedKeyBytes: most } = LIMITS
  // A UTF-16 code unit takes at most three bytes.
  return text.length * 3 <= most || (text.length <= most && Buffer.byteLength(text) <= most)
}

function sha256(data: string | Uint8Array): string {
  return hash('sha256', data)
}
