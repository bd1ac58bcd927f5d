import type { InboxMessage, OutboxMessage, Publisher } from '@txbox/core'

/** A message as it arrived. */
export interface ArrivedMessage {
  readonly id: string
  readonly payload: Uint8Array
}

/** The fields of a message as the receiver reads them back. */
export interface ReadMessage {
  readonly id: string
  readonly type?: string | undefined
  readonly key?: string | undefined
  readonly correlationId?: string | undefined
  readonly contentType?: string | undefined
  /** The time of creation, with milliseconds. */
  readonly createdAt?: Date | undefined
  /** The headers that the sender has set, and no others. */
  readonly headers: Readonly<Record<string, string>>
}

/** The network between the publisher and its broker. */
export interface NetworkUnderTest {
  /** Breaks all connections; new ones are accepted. */
  cut(): void
  /** Breaks all connections and refuses new ones. Resolves when the publisher would notice. */
  down(): Promise<void>
  /** Accepts connections again. */
  up(): Promise<void>
  /** Keeps connections open, and accepts new ones, but passes nothing on. Ends with `up`. */
  freeze?(): void
}

/**
 * A publisher and the receiving side of its destination. Each case gets a new one. Cases whose rule is about an optional member are left out
 * if the member is missing.
 */
export interface PublisherUnderTest {
  /** The rules about closing (S3, S4) are about its `close`. */
  readonly publisher: Publisher
  /** A topic whose messages arrive. */
  readonly goodTopic: string
  /** A topic whose messages are refused for another attempt. */
  readonly badTopic: string
  /** Returns the messages that have arrived since the last call, in the order of arrival. */
  readonly arrived: () => Promise<readonly ArrivedMessage[]>
  /** For the rules about outages (A1 to A3, A6, A7) and O3. */
  readonly network?: NetworkUnderTest | undefined
  /** For V2: the smallest payload, in bytes, that is too large. A payload with one byte less is accepted. No case sends a larger one. */
  readonly tooLarge?: number | undefined
  /** For V3: changes of a message that make it one that the protocol can never carry, each with its name. */
  readonly poison?: Readonly<Record<string, Partial<OutboxMessage>>> | undefined
  /** For V4: a topic whose destination takes nothing at the moment, and a function after which it does. */
  readonly full?: { readonly topic: string; readonly free: () => Promise<void> } | undefined
  /** For F1 to F5: the fields of the messages that have arrived since the last call. */
  readonly readBack?: (() => Promise<readonly ReadMessage[]>) | undefined
  /**
   * For F6: the messages that have arrived since the last call, as the function that reads them for a consumer returns them, such as
   * `fromKafka`.
   */
  readonly received?: (() => Promise<readonly InboxMessage[]>) | undefined
  /** The password, token or key with which `publisher` logs in: V5 asserts that no error shows it. */
  readonly secret?: string | undefined
  /** For A4: a publisher whose password is refused, and the password, which no error may show. */
  readonly refused?: { readonly publisher: Publisher; readonly secret: string } | undefined
  /** For A5: a publisher whose host has no address. */
  readonly unresolved?: Publisher | undefined
  /** Called after the case, after all publishers were closed. */
  close?(): Promise<void> | void
}

export interface PublisherContractOptions {
  /**
   * The `ordering` that the publisher declares. With `'per-key'`, cases pass several messages of a key in one call, as the relay does; with
   * `'none'`, they pass one of each key at most. A publisher that declares nothing has `'none'`.
   */
  readonly ordering: 'none' | 'per-key'
  /** Names of headers arrive in lower case, as over HTTP. @default false */
  readonly lowerCaseHeaders?: boolean
  /**
   * How long the publisher waits for an answer, in milliseconds. A frozen broker makes a call throw a second later at most, and when
   * connections are cut, no message is accepted for as long at most.
   *
   * @default 30_000
   */
  readonly answerTimeoutMs?: number
  /** The broker drops a message whose id it has taken a short time before: a resend is accepted, and is no second copy. @default false */
  readonly deduplicates?: boolean
  /** Calls of the publisher's factory with wrong options. Each must throw an `InvalidOptionError`. */
  readonly wrongOptions?: Readonly<Record<string, () => unknown>>
  /** The seed of the random cases. @default 4711 */
  readonly seed?: number
}
