import type {
  Database,
  DeduplicationOptions,
  InTransaction,
  NewMessage,
  OneOrMore,
  StoredId,
  Telemetry,
} from '@txbox/core'
import {
  OptionChecker,
  SENDS_CONSUMER,
  createSender,
  notifyOption,
  portsOf,
  subscribersOption,
  telemetryOption,
} from '@txbox/core/internal'
import { refuseTooManyKeys } from './refuse-too-many-keys.ts'

/** The messages that an outbox accepts. `Topics` maps each topic to the type of its payload. */
export type MessageOf<Topics> = {
  [T in keyof Topics & string]: NewMessage<Topics[T]> & { readonly topic: T }
}[keyof Topics & string]

/** `Topics` maps each topic to the type of its payload. */
export type Outbox<Topics = Record<string, unknown>> = OutboxOf<MessageOf<Topics>>

/**
 * An outbox by the type of its messages. Compared by `Topics`, TypeScript would not accept an outbox with more topics than
 * a function needs.
 */
export interface OutboxOf<Message> {
  /**
   * Stores a message, or an array of messages with one statement, in the caller's transaction. If the transaction
   * commits, the relay publishes each message at least once, and it publishes messages with the same `key` in the order
   * of the calls. If the transaction rolls back, the messages are never published.
   *
   * To order the messages of one key across transactions, change the aggregate first and publish afterwards (on a
   * single server, locking the aggregate is enough). The messages of the key are then published in the order of the
   * changes. An outbox with `lockKeys` needs no such care.
   *
   * With the option `deduplication`, a message whose id was sent before is not stored: its result is the id of the
   * first message with `duplicate: true`. A concurrent send of the same id waits for the transaction of the first.
   *
   * A call takes at most 10,000 messages, 10 MiB per payload and 64 MiB in total.
   *
   * @returns the id of each message, in the order given.
   * @throws {InvalidMessageError} when a message cannot be stored; none of the messages was stored.
   * @throws {UnsupportedTransactionError | NotInTransactionError} when `tx` is not an open transaction; nothing was
   *   written.
   * @throws {SchemaError | DatabaseUnavailableError | TransactionAbortedError | TransactionConflictError}
   */
  publish<H extends object, M extends Message | readonly Message[]>(
    tx: H & InTransaction<H>,
    message: OneOrMore<Message, M>,
  ): Promise<M extends readonly unknown[] ? readonly StoredId[] : StoredId>
}

/** A message that has no topic: only local consumers get it. */
export type LocalOnlyMessage<P = unknown> = Omit<NewMessage<P>, 'topic'> & { readonly topic?: undefined }

/** An outbox whose messages may have local consumers. `Topics` maps each topic to the type of its payload. */
export type SubscribedOutbox<Topics = Record<string, unknown>> = OutboxOf<
  MessageOf<Topics> | LocalOnlyMessage
>

export interface OutboxOptions {
  /** The result of `postgres()` or `mysql()`. A `db` is not needed. */
  database: Database
  /**
   * Whether transactions on PostgreSQL notify the relays and local consumers that listen, so that they look for messages at once.
   * NOTIFY takes a lock during COMMIT that all notifying transactions of the server share: at high rates, polling is faster.
   *
   * - `'auto'`: a transaction after a silence notifies, and of many only some: at most 20 transactions a second in this process, with
   *   two statements more. Others are found by the next poll, which is soon while there are messages. Never notifies where that could
   *   let the transaction fail: on a server with `max_prepared_transactions` above 0, in a transaction with a `lock_timeout`, while
   *   the server's queue of notifications is half full, and without the privilege. Each reason is reported once as a process
   *   warning with the code `TXBOX_NOT_NOTIFYING`.
   * - `true`: every transaction notifies. PostgreSQL only.
   * - `false`: none does.
   *
   * @default 'auto'; on MySQL and MariaDB, which cannot notify, this is `false`
   */
  notify?: boolean | 'auto'
  /**
   * Locks the ordering key of each message until the transaction ends, before the message gets its number, so that the
   * messages of a key are published in the order of the commits, even if the aggregate is not changed or locked first.
   * All outboxes that publish the key must have this option: an outbox without it takes no lock and waits for none.
   *
   * Other transactions with a message of the same key wait until this transaction ends. Two transactions that lock two
   * keys, or a key and a row, in opposite order deadlock: one of them gets a `TransactionConflictError`, and must be
   * run again. Within one call, all transactions lock keys in the same order. Between calls, keep an order yourself, or
   * publish all messages with one call at the end of the transaction. At REPEATABLE READ on PostgreSQL, a statement
   * after the wait does not see what the other transaction has committed, and gets the same error if it changes such a
   * row.
   *
   * At most 1000 distinct keys per call; more are an `InvalidMessageError`. Messages without a key, and messages with
   * `deliverAt`, lock nothing. The lock is taken by the INSERT, without a further round trip. On a cluster in which
   * several nodes accept writes, the lock does not order transactions on different nodes.
   *
   * @default false
   */
  lockKeys?: boolean
  /**
   * Stores a message only once if it is sent twice within a window, as a FIFO queue does. The ids are remembered in the
   * inbox table, in the transaction of the message. @default off
   */
  deduplication?: DeduplicationOptions
  /**
   * The telemetry that receives traces and metrics. The context of the code that publishes is stored with each message, and travels
   * on with it; a header `traceparent` of a message takes precedence.
   *
   * @default the telemetry that is registered for the process, such as by `import '@txbox/opentelemetry/register'`
   */
  telemetry?: Telemetry | undefined
}

export interface SubscriptionOptions {
  /**
   * The local consumers of each type of message. Each gets a message of its own, in the transaction of `publish`. `'registered'`:
   * the consumers that have been started on this database at least once, as the transaction sees them. A relay publishes a
   * message too if it has a `topic`.
   */
  subscriptions: Readonly<Record<string, readonly string[]>> | 'registered'
  /**
   * Whether the consumers that are registered in the database get their messages beside those that `subscriptions` names; a
   * consumer in both gets a message once. @default false, and true with `subscriptions: 'registered'`
   */
  registered?: boolean | undefined
  /**
   * What happens with a message that has neither a topic nor a subscriber. `'refuse'`: `publish` throws an `InvalidMessageError`.
   * `'ignore'`: the message is checked, and not stored. @default 'refuse'
   */
  unrouted?: 'refuse' | 'ignore' | undefined
}

/**
 * Creates an outbox whose messages local consumers get, and a relay publishes if they have a topic.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function createOutbox<Topics = Record<string, unknown>>(
  options: OutboxOptions & SubscriptionOptions,
): SubscribedOutbox<Topics>
/**
 * Creates an outbox. An outbox stores messages in the same transaction as the change that the messages report; a relay
 * publishes the messages after the commit.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function createOutbox<Topics = Record<string, unknown>>(options: OutboxOptions): Outbox<Topics>
export function createOutbox(options: OutboxOptions & Partial<SubscriptionOptions>): Outbox {
  const where = 'createOutbox'
  const check = new OptionChecker(where, options).known(
    'database',
    'notify',
    'lockKeys',
    'deduplication',
    'subscriptions',
    'registered',
    'unrouted',
    'telemetry',
  )
  const ports = portsOf(where, options.database)
  const notify = notifyOption(check, options)
  const lockKeys = check.flag('lockKeys', false)
  const subscribers = subscribersOption(where, options)
  const publish = createSender(where, {
    ports,
    call: { where: 'publish', consumer: SENDS_CONSUMER, topicOptional: subscribers !== undefined },
    deduplication: options.deduplication,
    telemetry: telemetryOption(check, options.telemetry),
    check: lockKeys ? refuseTooManyKeys : undefined,
    append: (session, messages) => ports.outbox.append(session, messages, { notify, lockKeys, subscribers }),
  })
  return { publish: publish as Outbox['publish'] }
}
