import type { Source, SourceTraits } from '@txbox/core'

/** The network between the source and its broker. */
export interface SourceNetwork {
  /** Breaks all connections; new ones are accepted. */
  cut(): void
  /** Needed for `'outage'`: breaks all connections and refuses new ones. */
  down?(): Promise<void>
  /** Needed for `'outage'`: accepts connections again. */
  up?(): Promise<void>
}

/** A transaction in which a delivery can be settled. */
export interface SettlingTransaction {
  /** The argument of `settleIn`. */
  readonly tx: unknown
  commit(): Promise<void>
  rollback(): Promise<void>
}

/** A source with an empty queue of its own, and the operations that only its broker offers. Each case gets a new one. */
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
  /** Needed for `'network'`. */
  readonly network?: SourceNetwork | undefined
  /** Needed for `'transactions'`: begins a transaction. */
  readonly begin?: (() => Promise<SettlingTransaction>) | undefined
  /** Called after the case, after all sources were closed. */
  close?(): Promise<void> | void
}

/** The optional members that the subject of a case has. */
export type SourceOffer =
  /** `network`. */
  | 'network'
  /** `network` with `down` and `up`. */
  | 'outage'
  /** `begin`, for a source with the trait `settlesInTransaction`. */
  | 'transactions'
  /** The trait `leaseMs` is short enough that cases wait until a lease is over, twice. */
  | 'lease'
  /** Returns that are not counted are not: `retry` with `counted: false`, and the return by `close`. */
  | 'uncounted'

export interface SourceContractOptions {
  /** The traits that the source declares. Cases are left out, or expect less, according to them. */
  readonly traits: SourceTraits
  /** The optional members that `open` provides. Cases that need another one are left out. */
  readonly offers?: readonly SourceOffer[]
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
