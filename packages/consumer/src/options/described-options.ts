import type { ConnectedDatabase, InboxMessage, RunsMessages } from '@txbox/core'
import type {
  BatchHandler,
  BatchOptions,
  ConsumerOptions,
  MessageHandler,
  PlainConsumerOptions,
  TransactionBatchHandler,
  TransactionHandler,
} from './consumer-options.ts'
import type { Guard } from './consumer.ts'

declare const notGiven: unique symbol
/** Is part of a type parameter only if the options determine no type for it. */
interface NotGiven {
  readonly [notGiven]: never
}

// oxlint-disable typescript/no-explicit-any -- only what the options contain matters, whatever their transactions are
export type AnyInbox<P> = RunsMessages<any, InboxMessage<P>> | NotGiven | undefined
export type AnyDatabase = ConnectedDatabase<any> | NotGiven | undefined
// oxlint-enable typescript/no-explicit-any
export type AnyBatch = BatchOptions | NotGiven | undefined

/** The type of the transactions of an inbox or a database; `undefined` without both. */
type TxOf<I, D> = [I] extends [RunsMessages<infer Tx, never>]
  ? Tx
  : [D] extends [ConnectedDatabase<infer Tx>]
    ? Tx
    : undefined

type HandlerOf<Tx, P, B> = [Tx] extends [undefined]
  ? [B] extends [BatchOptions]
    ? BatchHandler<P>
    : MessageHandler<P>
  : [B] extends [BatchOptions]
    ? TransactionBatchHandler<Tx, P>
    : TransactionHandler<Tx, P>

/** The other options that an inbox or a database requires, or does not allow. */
type Conditions<Tx, P, I> = ([I] extends [object] ? { database?: undefined } : { name: string }) &
  ([Tx] extends [undefined]
    ? Pick<PlainConsumerOptions<P>, 'delivery'> & { guard?: undefined }
    : { guard?: Guard<Tx, InboxMessage<P>> | undefined; delivery?: undefined })

/** A value that may be absent determines no kind of consumer. */
type Definite<T> = NotGiven extends T ? T : undefined extends T ? undefined : T

/** Refuses options of a batch that do not exist. */
type Exactly<B> = B extends BatchOptions ? { [K in Exclude<keyof B, keyof BatchOptions>]: never } : unknown

/** The options of a consumer of any kind: the kind follows from the types of the inbox, the database and the batch. */
export type DescribedOptions<P, I, D, B> = ConsumerOptions<P> & {
  inbox?: I & Definite<I>
  database?: D & Definite<D>
  batch?: B & Definite<B> & Exactly<B>
  handler: HandlerOf<TxOf<I, D>, P, B>
} & Conditions<TxOf<I, D>, P, I>
