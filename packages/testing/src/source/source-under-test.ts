import type { Source, SourceTraits } from '@txbox/core'

/** The network between the source and its broker. */
export interface SourceNetwork {
  /** Breaks all connections; new ones are accepted. */
  cut(): void
  /** Breaks all connections and refuses new ones. */
  down?(): Promise<void>
  /** Accepts connections again. */
  up?(): Promise<void>
}

/** A transaction in which a delivery can be settled. */
export interface SettlingTransaction {
  /** The argument of `settleIn`. */
  readonly tx: unknown
  commit(): Promise<void>
  rollback(): Promise<void>
}

/**
 * A source with an empty queue of its own, and the operations that only its broker offers. Each case gets a new one.
 * Cases whose rule is about an optional member are left out if the member is missing.
 */
export interface SourceUnderTest {
  readonly source: Source
  /** Sends messages with these ids, in this order, and resolves when the broker has them. `key` is their ordering key. */
  send(ids: readonly string[], how?: { readonly key?: string | undefined }): Promise<void>
  /**
   * The number of messages that the queue still holds: those that are neither accepted nor rejected. Called only while no consumer has
   * the queue open, and repeatedly until the number is the expected one.
   */
  left(): Promise<number>
  /** Needed with the trait `keepsRejected`: the ids of the messages that were rejected since the case began. */
  readonly rejected?: (() => Promise<readonly string[]>) | undefined
  /** For the rules about lost connections (L2 to L5), and with `down` and `up` for outages (L6). */
  readonly network?: SourceNetwork | undefined
  /** For E9, which is about sources with the trait `settlesInTransaction`: begins a transaction. */
  readonly begin?: (() => Promise<SettlingTransaction>) | undefined
  /** Called after the case, after all sources were closed. */
  close?(): Promise<void> | void
}

export interface SourceContractOptions {
  /**
   * The traits that the source declares. A rule about what such a source cannot do is no case, and other cases expect less. E8, about the
   * end of leases, is left out by name if `leaseMs` is above 5,000.
   */
  readonly traits: SourceTraits
  /**
   * Whether messages without a key are delivered in the order in which they were sent.
   *
   * @default unless the source has the trait `ordersKeys`
   */
  readonly inOrder?: boolean
  /**
   * `'each'`: each settlement counts for its own message. `'prefix'`: the broker keeps a position only, as Kafka does for each partition.
   * Whatever comes behind an unsettled delivery is delivered again when the source is closed or loses its connection, even if it was
   * accepted. All messages of a case must then be in one partition.
   *
   * @default 'each'
   */
  readonly settles?: 'each' | 'prefix'
  /** Whether a second consumer of the queue receives what the first does not. @default unless the trait `isExclusive` is set */
  readonly competes?: boolean
  /**
   * Whether a message that is delivered again after a lost connection has `deliveries` of 2 or more. `false` for a broker that does not
   * mark redelivered messages.
   *
   * @default true
   */
  readonly marksRedelivered?: boolean
  /**
   * `true` for a broker that also counts the returns that must not count: `retry` with `counted: false`, and the return by `close`. E5,
   * which is about them, is then no case.
   *
   * @default false
   */
  readonly countsReturns?: boolean
  /**
   * Whether an open source continues after its connections were cut, and its deliveries can be settled then.
   *
   * @default whether the source has the trait `leaseMs`
   */
  readonly survivesCut?: boolean
  /** How long a case waits for anything that must happen, in milliseconds. @default 25_000 */
  readonly limitMs?: number
  /** The seed of the random cases. @default 4711 */
  readonly seed?: number
}
