/**
 * What names a message. Every optional member also takes `undefined`, so that a broker's fields can be passed on as
 * they are.
 */
export interface MessageIdentity {
  /** Names the message for life: every resend carries the same one. */
  readonly id: string
  /** Who made it. With `id` it is the message's identity, as in CloudEvents 1.0 (`source` + `id`). */
  readonly source?: string | undefined
  readonly type?: string | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Ties messages of one conversation together. Stored beside the claim for audit, never part of the key by itself. */
  readonly correlationId?: string | undefined
  /** When the producer says it happened. A string keeps microseconds (RFC 3339); a Date has milliseconds. */
  readonly time?: Date | string | undefined
}

/** A message as a handler sees it. `payload` is required here, so that a typed handler never writes `payload!`. */
export interface InboxMessage<P = unknown> extends MessageIdentity {
  readonly payload: P
}

/** What the inbox accepts: a message with or without a payload. */
export type AnyMessage = MessageIdentity & { readonly payload?: unknown }

/** A message to publish. `P` is what `payload` may be. */
export interface NewMessage<P = unknown> {
  /** Where it goes: exchange, topic, subject, queue or URL. 1 to 255 characters. */
  readonly topic: string
  /** What it is, e.g. `order.paid`. At most 255 characters. */
  readonly type?: string | undefined
  /**
   * Ordering key, 1 to 255 characters: messages of one key are published in the order in which they were committed.
   * Without a key a message has no place in any order.
   */
  readonly key?: string | undefined
  /** JSON by default; a `Uint8Array` is stored as it is; a string is stored as it is under a `contentType` that is not JSON. */
  readonly payload: P
  /**
   * @default 'application/json', and 'application/octet-stream' for a `Uint8Array`
   */
  readonly contentType?: string | undefined
  /** Text to text; 64 KiB in all. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** At most 255 characters. @default a new UUIDv7 (RFC 9562) */
  readonly id?: string | undefined
  readonly correlationId?: string | undefined
  /**
   * Not before this instant, by the database's clock; from 1970 to 9999. Such a message has no place in the order of its
   * key: it holds nothing back, and nothing waits for it.
   */
  readonly deliverAt?: Date | undefined
}

/** A message as a publisher sees it. */
export interface OutboxMessage {
  readonly id: string
  readonly topic: string
  readonly type?: string
  readonly key?: string
  /** To the byte as it was given to `publish`. */
  readonly payload: Uint8Array
  /** The payload decoded as UTF-8. @throws {TypeError} when it is not UTF-8. */
  text(): string
  /** The payload parsed as JSON. @throws {SyntaxError | TypeError} when it is none. */
  json<P = unknown>(): P
  readonly contentType: string
  readonly headers: Readonly<Record<string, string>>
  readonly correlationId?: string
  /** By the database's clock, at `publish`. */
  readonly createdAt: Date
  /** 1 at the first attempt. */
  readonly attempt: number
}
