/**
 * The fields of a message apart from its payload. Every optional member also accepts `undefined`, so that a broker's
 * fields can be passed on as they are.
 */
export interface MessageIdentity {
  /** Identifies the message: every delivery of the message has the same id. */
  readonly id: string
  /** The producer of the message. `source` and `id` together are the identity of the message, as in CloudEvents 1.0. */
  readonly source?: string | undefined
  readonly type?: string | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Connects the messages of one conversation. Stored with the claim for auditing, never part of the key by itself. */
  readonly correlationId?: string | undefined
  /**
   * The time of the event, as the producer states it. A string (RFC 3339) keeps microseconds; a Date has milliseconds.
   */
  readonly time?: Date | string | undefined
}

/** A message as a handler receives it. `payload` is required, so that a typed handler does not need `payload!`. */
export interface InboxMessage<P = unknown> extends MessageIdentity {
  readonly payload: P
}

/** A message that the inbox accepts: with or without a payload. */
export type AnyMessage = MessageIdentity & { readonly payload?: unknown }

/** A message to publish. `P` is the type of `payload`. */
export interface NewMessage<P = unknown> {
  /** The destination of the message: exchange, topic, subject, queue or URL. 1 to 255 characters. */
  readonly topic: string
  /** The kind of message, such as `order.paid`. At most 255 characters. */
  readonly type?: string | undefined
  /**
   * The ordering key, 1 to 255 characters: messages with the same key are published in the order in which they were
   * committed. Messages without a key have no order.
   */
  readonly key?: string | undefined
  /**
   * Stored as JSON by default. A `Uint8Array` is stored unchanged, and so is a string with a `contentType` that is not
   * JSON.
   */
  readonly payload: P
  /** @default 'application/json', and 'application/octet-stream' for a `Uint8Array` */
  readonly contentType?: string | undefined
  /**
   * Names and values are strings, at most 64 KiB in all. A name that begins with `txbox-` is refused, except for those that txbox itself
   * puts among the headers of a message: `txbox-causation-id`, and those of dead letters. So a handler may publish the headers that it has
   * received.
   */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** At most 255 characters. @default a new UUIDv7 (RFC 9562) */
  readonly id?: string | undefined
  /** Connects the messages of one conversation. At most 255 characters. */
  readonly correlationId?: string | undefined
  /**
   * Sends with the same id within the window are one message. Only with the outbox's option `deduplication`: an id that
   * would be ignored is refused. 1 to 128 characters from `!` to `~`. The consumer receives the id as the header
   * `deduplication-id`.
   */
  readonly deduplicationId?: string | undefined
  /**
   * The message is not published before this instant, by the database's clock; from 1970-01-01 to 9999-12-31 UTC. A
   * message with `deliverAt` has no place in the order of its key: it does not wait for other messages, and other messages
   * do not wait for it.
   */
  readonly deliverAt?: Date | undefined
}

/**
 * An argument that is one message or several. `M` is its type, from which the result follows. The branch for `never` is
 * where TypeScript infers `M`; a parameter of the type `M` itself would accept an object with unknown fields. `M` must be
 * limited to the same types, so that a test double of the method may declare its parameter as one message or an array.
 */
export type OneOrMore<Message, M extends Message | readonly Message[]> = [M] extends [never]
  ? M
  : Message | readonly Message[]

/** A message as a publisher receives it. */
export interface OutboxMessage {
  readonly id: string
  readonly topic: string
  readonly type?: string
  readonly key?: string
  /** Exactly the bytes that `outbox.publish` stored. */
  readonly payload: Uint8Array
  /** The payload decoded as UTF-8, with its byte order mark, if any. @throws {InvalidMessageError} when it is not UTF-8. */
  text(): string
  /** The payload parsed as JSON. @throws {InvalidMessageError} when it is not JSON; the error does not quote the payload. */
  json<P = unknown>(): P
  /** Empty for a dead letter of a consumer whose message was received without a content type. */
  readonly contentType: string
  /** How `payload` is encoded in addition to its content type, such as `'gzip'`. Only dead letters of consumers have it. */
  readonly contentEncoding?: string
  readonly headers: Readonly<Record<string, string>>
  readonly correlationId?: string
  /** The time of `publish`, by the database's clock. */
  readonly createdAt: Date
  /** The number of this attempt; the first attempt is 1. */
  readonly attempt: number
}
