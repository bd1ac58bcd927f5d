import { InvalidMessageError, type InboxMessage } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'
import type { ConsumeMessage } from 'amqplib'
import { KEY_HEADER } from '../publish/outgoing-message.ts'
import type { DeliveryCount, DeliveryCounts } from './delivery-counts.ts'
import { eventKeyOf, idOf, identityOf, messageOf, type RabbitmqDelivery } from './from-rabbitmq.ts'

/** A delivery as a source of RabbitMQ passes it to the functions `id` and `key`. */
export interface RabbitmqSourceDelivery extends RabbitmqDelivery {
  readonly properties: RabbitmqDelivery['properties'] & {
    readonly headers?: Readonly<Record<string, unknown>> | undefined
  }
  readonly fields: { readonly exchange: string; readonly routingKey: string; readonly redelivered: boolean }
}

/** The user's functions that read a part of a delivery. */
export interface DeliveryFunctions {
  readonly id: ((delivery: RabbitmqSourceDelivery) => string | undefined) | undefined
  readonly key: ((delivery: RabbitmqSourceDelivery) => string | undefined) | undefined
}

/** The contents of a delivery. */
export interface ReadDelivery<P> extends DeliveryCount {
  readonly message: InboxMessage<P>
  readonly undecodable?: unknown
  readonly key: string | undefined
}

/** Reads the deliveries of one queue. */
export class DeliveryReader {
  readonly counts: DeliveryCounts
  readonly #functions: DeliveryFunctions

  constructor(functions: DeliveryFunctions, counts: DeliveryCounts) {
    this.#functions = functions
    this.counts = counts
  }

  /**
   * @param raw the message as it was received first, without the traces of a retry queue.
   * @param earlier see `DeliveryCounts.of`.
   * @param received the message as the queue has delivered it now, with the counts of the queue.
   */
  read<P>(raw: ConsumeMessage, earlier = 0, received = raw): ReadDelivery<P> {
    const { deliveries, isCounted } = this.counts.of(received, earlier)
    try {
      const key = this.#keyOf(raw)
      return { message: decoded<P>(raw, this.#idOf(raw)), key, deliveries, isCounted }
    } catch (error) {
      const undecodable = error ?? new InvalidMessageError('The delivery cannot be decoded.')
      return { message: readable<P>(raw), undecodable, key: keyIn(raw), deliveries, isCounted }
    }
  }

  #idOf(raw: ConsumeMessage): string | undefined {
    const { id } = this.#functions
    return id === undefined ? idOf(raw.properties) : answerOf('id', id, raw)
  }

  #keyOf(raw: ConsumeMessage): string | undefined {
    const { key } = this.#functions
    return key === undefined ? keyIn(raw) : answerOf('key', key, raw)
  }
}

/** @throws {InvalidMessageError} if the function throws, or returns anything but text or undefined. */
function answerOf(
  name: keyof DeliveryFunctions,
  ask: (delivery: ConsumeMessage) => unknown,
  raw: ConsumeMessage,
): string | undefined {
  let answer: unknown
  try {
    answer = ask(raw)
  } catch (cause) {
    throw new InvalidMessageError(`rabbitmqSource: the option '${name}' threw an error for a delivery.`, {
      cause,
    })
  }
  if (answer === undefined || typeof answer === 'string') return textOf(answer)
  throw new InvalidMessageError(
    `rabbitmqSource: the option '${name}' must return text or undefined for each delivery, not ${nameOf(answer)}.`,
  )
}

function keyIn({ properties: { headers } }: ConsumeMessage): string | undefined {
  return textOf(headers?.[KEY_HEADER]) ?? eventKeyOf(headers)
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** Decodes the message of a delivery. @throws {InvalidMessageError} when the body does not match its content type. */
export function decoded<P>(raw: ConsumeMessage, id: string | undefined): InboxMessage<P> {
  return withOwnBytes(messageOf<P>(raw, id === '' ? undefined : id))
}

/** Copies a payload of bytes, so that a handler that changes it does not change what was received. */
function withOwnBytes<P>(message: InboxMessage<P>): InboxMessage<P> {
  const { payload } = message
  return payload instanceof Uint8Array ? { ...message, payload: payload.slice() as P & Uint8Array } : message
}

/** Reads the readable parts of a delivery that cannot be decoded. The payload is the body as it was received. */
function readable<P>({ content, properties }: ConsumeMessage): InboxMessage<P> {
  const { id, ...identity } = identityOf(properties)
  const payload: unknown = new Uint8Array(content.buffer, content.byteOffset, content.byteLength)
  return { id: id ?? '', ...identity, payload: payload as P }
}
