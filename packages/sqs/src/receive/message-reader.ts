import { InvalidMessageError, type InboxMessage, type ReceivedMessage } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'
import { messageOf } from './from-sqs.ts'
import { bytesOf, receivedFields, type ReceivedFields } from './received-fields.ts'
import type { SqsMessage } from './sqs-message.ts'

/** The user's functions that read a part of a message. */
export interface ReadFunctions {
  readonly id: ((message: SqsMessage) => string | undefined) | undefined
  readonly key: ((message: SqsMessage) => string | undefined) | undefined
}

/** The contents of a delivery. */
export interface ReadMessage<P> {
  readonly message: InboxMessage<P>
  readonly undecodable?: unknown
  readonly key: string | undefined
  readonly fields: ReceivedFields
}

/** Reads the messages of one queue. */
export class MessageReader {
  readonly #functions: ReadFunctions
  readonly #isFifo: boolean

  constructor(functions: ReadFunctions, isFifo: boolean) {
    this.#functions = functions
    this.#isFifo = isFifo
  }

  read<P>(raw: SqsMessage): ReadMessage<P> {
    const fields = receivedFields(raw)
    try {
      const key = this.#keyOf(raw, fields)
      return { message: messageOf<P>(fields, this.#idOf(raw, fields)), key, fields }
    } catch (error) {
      const undecodable = error ?? new InvalidMessageError('The message cannot be decoded.')
      return { message: readable<P>(fields), undecodable, key: this.#ownKeyOf(raw, fields), fields }
    }
  }

  #idOf(raw: SqsMessage, { id }: ReceivedFields): string {
    const ask = this.#functions.id
    return (ask === undefined ? id : answerOf('id', ask, raw)) ?? ''
  }

  #keyOf(raw: SqsMessage, fields: ReceivedFields): string | undefined {
    const ask = this.#functions.key
    return ask === undefined ? this.#ownKeyOf(raw, fields) : answerOf('key', ask, raw)
  }

  /** In a FIFO queue, the message group is an order, also for messages of other producers. */
  #ownKeyOf(raw: SqsMessage, { key }: ReceivedFields): string | undefined {
    if (key !== undefined && key !== '') return key
    return this.#isFifo ? raw.Attributes?.['MessageGroupId'] : undefined
  }
}

/** The message as it was received, for a dead letter. */
export function asReceived(fields: ReceivedFields, id: string): ReceivedMessage {
  const { identity, contentType, contentEncoding } = fields
  return {
    ...identity,
    id,
    bytes: readableBytes(fields),
    ...(contentType !== undefined && { contentType }),
    ...(contentEncoding !== undefined && { contentEncoding }),
  }
}

/** Returns the readable parts of a message that cannot be decoded. */
function readable<P>(fields: ReceivedFields): InboxMessage<P> {
  return { id: fields.id ?? '', ...fields.identity, payload: readableBytes(fields) as P }
}

/** A body that is not what its encoding says stands for itself. */
function readableBytes(fields: ReceivedFields): Uint8Array {
  try {
    return bytesOf(fields)
  } catch {
    return new Uint8Array(Buffer.from(fields.body))
  }
}

/** @throws {InvalidMessageError} if the function throws, or returns anything but text or undefined. */
function answerOf(
  name: keyof ReadFunctions,
  ask: (message: SqsMessage) => unknown,
  raw: SqsMessage,
): string | undefined {
  let answer: unknown
  try {
    answer = ask(raw)
  } catch (cause) {
    throw new InvalidMessageError(`sqsSource: the option '${name}' threw an error for a message.`, { cause })
  }
  if (answer === undefined || typeof answer === 'string') return answer === '' ? undefined : answer
  throw new InvalidMessageError(
    `sqsSource: the option '${name}' must return text or undefined for each message, not ${nameOf(answer)}.`,
  )
}
