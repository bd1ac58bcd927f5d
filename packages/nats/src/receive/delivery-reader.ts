import { InvalidMessageError, type InboxMessage } from '@txbox/core'
import { copyBytes, nameOf } from '@txbox/core/internal'
import { messageOf, readHeaders, withEvent, type NatsMessage, type ReadHeaders } from './from-nats.ts'

/** A message as a source of NATS passes it to the functions `id` and `key`. */
export interface NatsSourceMessage extends NatsMessage {
  readonly subject: string
}

/** The user's functions that read a part of a message. */
export interface DeliveryFunctions {
  readonly id: ((message: NatsSourceMessage) => string | undefined) | undefined
  readonly key: ((message: NatsSourceMessage) => string | undefined) | undefined
}

/** The contents of a delivery. */
export interface ReadDelivery<P> {
  readonly message: InboxMessage<P>
  readonly undecodable?: unknown
  readonly key: string | undefined
  readonly headers: ReadHeaders
}

export function readDelivery<P>(raw: NatsSourceMessage, functions: DeliveryFunctions): ReadDelivery<P> {
  let headers = readHeaders(raw)
  try {
    headers = withEvent(headers)
    const key = functions.key === undefined ? keyIn(headers) : answerOf('key', functions.key, raw)
    const id = functions.id === undefined ? headers.identity.id : answerOf('id', functions.id, raw)
    return { message: decoded<P>(raw, headers, id ?? ''), key, headers }
  } catch (error) {
    const { id = '', ...identity } = headers.identity
    const message = { id, ...identity, payload: copyBytes(raw.data) as P }
    const undecodable = error ?? new InvalidMessageError('The delivery cannot be decoded.')
    return { message, undecodable, key: keyIn(headers), headers }
  }
}

function keyIn({ key }: ReadHeaders): string | undefined {
  return key === '' ? undefined : key
}

/**
 * Decodes a message. A payload of bytes is copied, so that a handler that changes it does not change what was received.
 *
 * @throws {InvalidMessageError} when the data are not what their content type says.
 */
export function decoded<P>(raw: NatsMessage, headers: ReadHeaders, id: string): InboxMessage<P> {
  const message = messageOf<P>(raw, headers, id)
  const { payload } = message
  const own = { ...message, headers: { ...message.headers } }
  return payload instanceof Uint8Array ? { ...own, payload: copyBytes(payload) as P } : own
}

/** @throws {InvalidMessageError} if the function throws, or returns anything but text or undefined. */
function answerOf(
  name: keyof DeliveryFunctions,
  ask: (message: NatsSourceMessage) => unknown,
  raw: NatsSourceMessage,
): string | undefined {
  let answer: unknown
  try {
    answer = ask(raw)
  } catch (cause) {
    throw new InvalidMessageError(`natsSource: the option '${name}' threw an error for a message.`, { cause })
  }
  if (answer === undefined || answer === '') return undefined
  if (typeof answer === 'string') return answer
  throw new InvalidMessageError(
    `natsSource: the option '${name}' must return text or undefined for each message, not ${nameOf(answer)}.`,
  )
}
