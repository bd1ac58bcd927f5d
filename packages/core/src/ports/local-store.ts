import type { Lease } from './lease-store.ts'
import type { BacklogMessage, BacklogRow, ReadLimits, Refusal } from './relay-store.ts'
import type { Session } from './session.ts'

/** One shard of one local consumer. */
export interface LocalShard {
  readonly consumer: string
  readonly shard: number
}

/** A row of a local consumer: its `seq` is a number in `local_outbox`, or a place in `local_parked`. */
export interface LocalRow extends BacklogRow {
  readonly in: 'waiting' | 'parked'
}

export interface LocalMessage extends Omit<BacklogMessage, 'topic'>, LocalRow {
  /** Where a relay publishes the same message; `undefined` if it has only local consumers. */
  readonly topic: string | undefined
  /** Whether the message may have crashed its process. Only `readSuspect` returns such a message. */
  readonly isSuspect: boolean
}

export interface LocalRead {
  /** The oldest messages, in the order of their numbers. */
  readonly messages: readonly LocalMessage[]
  /**
   * No message that was not in the table at the time of the read will ever have a number up to this: the next read may
   * begin after it. `undefined`: nothing is certain, and the next read must begin at the start.
   */
  readonly certain: bigint | undefined
}

export interface LocalRefusal extends Omit<Refusal, 'row'> {
  readonly row: LocalRow
  /** Whether the message waits because its consumer has no handler for its type. No attempt is counted. */
  readonly unhandled: boolean
}

/** What happens to messages outside of the transactions of their handlers. */
export interface LocalSettlement {
  /** Messages whose handlers have succeeded, at least once. */
  readonly accepted: readonly LocalRow[]
  readonly refused: readonly LocalRefusal[]
  /** Waiting rows that are parked behind a parked row of their key, in their order. */
  readonly behind: readonly LocalRow[]
}

/** The waiting rows of one shard whose handlers have succeeded, at least once. */
export interface LocalAcceptance {
  readonly lease: Lease
  readonly at: LocalShard
  readonly rows: readonly LocalRow[]
}

/** A shard that has rows. */
export interface LocalWork extends LocalShard {
  /** Whether rows of `local_outbox` wait. */
  readonly waiting: boolean
  /** Whether parked messages are due, suspects included. */
  readonly due: boolean
}

/**
 * The messages of local consumers: the tables `local_outbox` and `local_parked`, as the owner of the lease
 * `local/<consumer>/<shard>` sees them.
 *
 * Reads take no locks and wait for no transaction. What a handler writes and the removal of its message commit together: `lock`
 * is the first statement of the handler's transaction, and `remove` the last one. All other changes are short transactions of
 * their own, fenced by the lease's term. Handlers hold locks on their rows for as long as they run, so a settlement changes only
 * rows that it can lock without waiting, and locks the row of the lease last.
 *
 * Every statement that locks, removes, moves or changes a row identifies the row by its consumer, its number and its stamp
 * together.
 */
export interface LocalStore {
  /** See `RelayStore.generation`. */
  readonly generation: number
  /** Returns the given shards that have rows. One statement, whatever their number; its cost does not depend on the backlog. */
  work(shards: readonly LocalShard[]): Promise<readonly LocalWork[]>
  /**
   * Returns the oldest waiting messages, at most `limits.messages`, and stops before their payloads exceed `limits.bytes`, but
   * returns at least one message if there is one. The same snapshot shows which of their keys have parked messages
   * (`blocked`).
   *
   * @param how `after` is a `certain` of the same generation: the read begins behind it. Messages whose keys are in `without`
   *   are left out.
   */
  read(
    at: LocalShard,
    limits: ReadLimits,
    how: { readonly after: bigint | undefined; readonly without: readonly string[] },
  ): Promise<LocalRead>
  /** Parked messages that are due and are not suspects. See `RelayStore`. */
  readDue(lease: Lease, at: LocalShard, limits: ReadLimits): Promise<readonly LocalMessage[]>
  /** The first suspect that is due and comes first in its key. */
  readSuspect(at: LocalShard, limits: ReadLimits): Promise<LocalMessage | undefined>
  /**
   * Locks rows until the transaction ends: the first statement of a handler's transaction, which may be sent together with BEGIN.
   * Skips rows that another transaction has locked, that no longer exist, or that are dead letters. Locks nothing unless the
   * lease is held under its term, which a plain read in front of the locks finds out: the row of the lease is not locked.
   *
   * @returns the rows that are locked now, in the order given. Rows that are missing must not be handled.
   * @throws {TransactionConflictError} when a row was changed after the transaction's snapshot.
   */
  lock(
    session: Session,
    lease: Lease,
    at: LocalShard,
    rows: readonly LocalRow[],
  ): Promise<readonly LocalRow[]>
  /**
   * Removes rows that the transaction has locked: the last statement of a handler's transaction.
   *
   * @throws {TransactionAbortedError} when fewer rows were removed: the transaction must roll back.
   */
  remove(session: Session, at: LocalShard, rows: readonly LocalRow[]): Promise<void>
  /**
   * Deletes accepted rows, parks or dead-letters refused ones, and parks the rows behind them. A row that no longer exists is
   * skipped.
   *
   * @returns the rows that were left as they are, because another transaction has locked them.
   * @throws the same errors as `RelayStore.settle`.
   */
  settle(lease: Lease, at: LocalShard, settlement: LocalSettlement): Promise<readonly LocalRow[]>
  /**
   * Deletes accepted rows of several shards of one consumer in one transaction, which is fenced by the leases of all of them: if one
   * lease is not held under its term, nothing is changed. Where the method is missing, each shard is settled by itself.
   *
   * @param acceptances at most one of each shard.
   * @returns for each of them, the rows that were left as they are, because another transaction has locked them.
   * @throws the same errors as `settle`. The caller does not learn which shard is the reason.
   */
  readonly acceptTogether?:
    | ((acceptances: readonly LocalAcceptance[]) => Promise<readonly (readonly LocalRow[])[]>)
    | undefined
  /**
   * Makes the first parked message of each key due, if it waits: after a parked head was removed, and after messages were parked
   * behind a head that may have gone meanwhile.
   */
  release(lease: Lease, at: LocalShard, keys: readonly string[]): Promise<void>
  /**
   * Makes the first parked message of each key due if no message of the key is due. The cost does not depend on the number of
   * waiting messages.
   *
   * @returns the number of keys that are no longer blocked.
   */
  healKeys(lease: Lease, at: LocalShard): Promise<number>
  /**
   * Makes messages suspects. Waiting rows move to the parked messages, with the rows before them in their keys.
   *
   * @returns the rows that were left as they are, because another transaction has locked them.
   */
  suspect(lease: Lease, at: LocalShard, rows: readonly LocalRow[]): Promise<readonly LocalRow[]>
  /**
   * Returns whether no other transaction has locked one of the first 1000 waiting or parked rows of the key. In a short
   * transaction of its own, which changes nothing.
   */
  isKeyUnlocked(at: LocalShard, key: string): Promise<boolean>
  /** Makes parked messages due that waited because the consumer had no handler for one of these types. */
  handled(consumer: string, types: readonly string[]): Promise<void>
  /** See `RelayStore.note`. */
  note(lease: Lease, inFlight: string | undefined): Promise<boolean>
  /** See `RelayStore.survived`. */
  survived(lease: Lease): Promise<void>
  /** Returns the number of messages of a consumer that wait or are due, in all shards, but at most `limit`. */
  countDue(consumer: string, limit: number): Promise<number>
}
