import type {
  AnyLocalConsumerOptions,
  AtLeastOnce,
  BatchOptions,
  ConsumerContext,
  ConsumerOptions,
  LocalInboxMessage,
} from '@txbox/consumer'
import type { ConnectedDatabase, InboxMessage, Logger, Publisher, Source, Telemetry } from '@txbox/core'
import type { GarbageCollectorOptions } from '@txbox/gc'
import type { OutboxOptions, SubscriptionOptions } from '@txbox/outbox'
import type { RelayOptions } from '@txbox/relay'

/** A function whose parameters a handler may narrow: to the payload of its type. */
type Narrowable<Parameters extends readonly unknown[]> = {
  bivariant(...parameters: Parameters): unknown
}['bivariant']

/** What `atLeastOnce` returns for a handler that may narrow the payload of its messages. */
type AtLeastOnceOf<M> = { readonly [K in keyof AtLeastOnce<M>]: Narrowable<[messages: M]> }

/** A handler of a local consumer: in a transaction, or marked by `atLeastOnce`. It may name the type of its message. */
export type TxboxHandler<Tx> =
  | Narrowable<[tx: Tx, message: LocalInboxMessage, context: ConsumerContext]>
  | AtLeastOnceOf<LocalInboxMessage>

/** A handler of several messages: in a transaction, or marked by `atLeastOnce`. */
export type TxboxBatchHandler<Tx> =
  | Narrowable<[tx: Tx, messages: readonly LocalInboxMessage[], contexts: readonly ConsumerContext[]]>
  | AtLeastOnceOf<readonly LocalInboxMessage[]>

/** A handler of a source: in a transaction with the claim of an inbox, or marked by `atLeastOnce`. */
export type TxboxSourceHandler<Tx> =
  | Narrowable<[tx: Tx, message: InboxMessage, context: ConsumerContext]>
  | AtLeastOnceOf<LocalInboxMessage>

type OfConsumer<Tx> = Omit<AnyLocalConsumerOptions<Tx>, 'database' | 'consumer' | 'signal'>

/** A local consumer of a box: the options of `createLocalConsumer`. */
export interface TxboxConsumerOptions<Tx> extends OfConsumer<Tx> {
  /** The handlers by the type of the messages, at least one. */
  handlers: Readonly<Record<string, TxboxHandler<Tx>>>
  batch?: undefined
}

/** A local consumer of a box that handles several messages in one transaction. */
export interface TxboxBatchConsumerOptions<Tx> extends OfConsumer<Tx> {
  /** The handlers by the type of the messages, at least one. */
  handlers: Readonly<Record<string, TxboxBatchHandler<Tx>>>
  /** How many messages one transaction handles at most, and how long it waits for them. */
  batch: BatchOptions
}

/** A local consumer of a box: its handlers by type, or an object with the property `handlers` and options. */
export type TxboxConsumer<Tx> =
  | Readonly<Record<string, TxboxHandler<Tx>>>
  | TxboxConsumerOptions<Tx>
  | TxboxBatchConsumerOptions<Tx>

/** A consumer of a broker: the effect of a message happens once, by an inbox that has the name of the entry. */
export interface TxboxSource<Tx> extends Pick<
  ConsumerOptions,
  'concurrency' | 'prefetch' | 'retry' | 'deadLetters' | 'deadLetterTopic' | 'handleTimeoutMs'
> {
  /** Where the messages come from, such as the result of `rabbitmqSource()`. */
  source: Source
  /** The handlers by the type of the messages, at least one. */
  handlers: Readonly<Record<string, TxboxSourceHandler<Tx>>>
  /**
   * What happens with a message whose type has no handler. `'dead-letter'`: it becomes a dead letter. `'ignore'`: it is accepted
   * without any effect.
   *
   * @default 'dead-letter'
   */
  unhandled?: 'dead-letter' | 'ignore' | undefined
}

/** The options of `createTxbox`. `Name` and `SourceName` are the names of the consumers and of the sources. */
export interface TxboxOptions<Tx, Name extends string = string, SourceName extends string = string> {
  /** The result of `postgres({ db })` or `mysql({ db })`. */
  database: ConnectedDatabase<Tx>
  /**
   * The local consumers of this process, by name. Each gets the messages of the types for which it has handlers.
   *
   * @default none
   */
  consumers?: { readonly [N in Name]: TxboxConsumer<Tx> } | undefined
  /**
   * Further consumers by type of message: those of other processes. The consumers of this box, and those that are registered in the
   * database, get their messages anyway. A consumer that is named twice gets a message once. @default none
   */
  subscriptions?: Readonly<Record<string, readonly string[]>> | undefined
  /**
   * Where the relay of this box publishes messages with a `topic`. When the box stops, it closes the publisher. @default no publisher,
   * and so no relay
   */
  publisher?: Publisher | undefined
  /** The consumers of brokers, by name. @default none */
  sources?: { readonly [S in SourceName]: TxboxSource<Tx> } | undefined
  /** As in `createOutbox`: what happens with a message that has neither a topic nor a subscriber. @default 'refuse' */
  unrouted?: SubscriptionOptions['unrouted']
  /**
   * As in `createOutbox`: whether transactions that store messages notify the relays and local consumers that listen.
   *
   * @default 'auto'; on MySQL and MariaDB, which cannot notify, this is `false`
   */
  notify?: OutboxOptions['notify'] | undefined
  /**
   * Whether `start` and `drain` create or update the tables of txbox. `'unless-production'`: never if NODE_ENV is `production`;
   * otherwise, tables that are missing are created, and earlier ones are updated if NODE_ENV is `development` or `test`, or on
   * PGlite.
   *
   * @default 'unless-production'
   */
  migrate?: boolean | 'unless-production' | undefined
  /** Whether the box may run on PGlite if NODE_ENV is `production`. @default false */
  allowPGlite?: boolean | undefined
  /** Options of the relay; `false` if another process has the relay. @default a relay if there is a `publisher` */
  relay?: false | Omit<RelayOptions, 'database' | 'publisher' | 'signal'> | undefined
  /** Options of the garbage collector; `false` if another process has it. @default a collector with its defaults */
  gc?: false | Omit<GarbageCollectorOptions, 'database' | 'signal'> | undefined
  /**
   * The isolation level of the handlers' transactions of all local consumers, as in `createLocalConsumer`. A consumer's own option
   * comes first.
   *
   * @default the server's default on PostgreSQL; 'read committed' on MySQL and MariaDB
   */
  isolationLevel?: AnyLocalConsumerOptions<Tx>['isolationLevel']
  /**
   * A logger for all parts, with pino's argument order, or `consoleLogger()`. Without a logger, the first trouble of each part becomes
   * a process warning with a code `TXBOX_UNHEARD_…` if the event has no listener; `false` suppresses the warnings.
   */
  logger?: Logger | false | undefined
  /**
   * Where traces and metrics of all parts go.
   *
   * @default the telemetry that is registered for the process, such as by `import '@txbox/opentelemetry/register'`
   */
  telemetry?: Telemetry | undefined
  /** The time limit of `stop` in milliseconds, 0 to 1 h. @default 25_000 */
  stopTimeoutMs?: number | undefined
  /**
   * Whether the first SIGTERM or SIGINT after `start` stops the box. The box does not end the process: it ends when nothing else
   * keeps it running, so close your pool when `stopped` resolves. @default false
   */
  signals?: boolean | undefined
  /** Aborting the signal stops the box, as `stop()` does. @default none */
  signal?: AbortSignal | undefined
}
