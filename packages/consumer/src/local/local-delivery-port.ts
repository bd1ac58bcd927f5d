import type { Delivery, Session } from '@txbox/core'

/** A delivery to a local consumer, whose removal is part of the handler's transaction. */
export interface LocalDelivery<P = unknown> extends Delivery<P> {
  /**
   * Must be asked before each try. After a failover that lost commits, earlier messages of the key may be there again: then the key
   * must be read again, and this message must not be handled before.
   *
   * @returns a promise if the server must be asked.
   */
  mayBegin(): boolean | Promise<boolean>
  /**
   * Locks the message: the first statement of the handler's transaction, which may be sent together with BEGIN. Messages that are
   * locked in the same tick and transaction are locked by one statement for each shard.
   *
   * @returns whether the message is locked. Otherwise the handler must not be called, and the transaction must not call
   *   `removeInSession` for it.
   */
  lockInSession(session: Session): Promise<boolean>
  /**
   * Removes the message: the last statement of the handler's transaction. Messages that are removed in the same tick are removed by
   * one statement for each shard.
   *
   * @throws {TransactionAbortedError} when the message was not removed: the transaction must roll back.
   */
  removeInSession(session: Session): Promise<void>
  /** Ends the delivery without a settlement, because the message could not be locked. Its key is looked at again within a second. */
  skip(): void
  /** Called after the handler's transaction has committed. */
  committed(): void
  /**
   * Called once, when the consumer no longer has the delivery: it is settled, or was lost and its handler has ended. From then on
   * the next message of the key may begin.
   */
  left(): void
}
