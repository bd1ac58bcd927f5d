import type { Session } from './session.ts'

/** One delivery that wants to be the winner. */
export interface Claim {
  readonly consumer: string
  /** The stored form of the key: see `inboxKey`. Distinct within one batch. */
  readonly key: string
  readonly correlationId: string | undefined
  /** How long the claim is remembered, from the database's now. */
  readonly retentionMs: number
}

export type ClaimResult =
  /**
   * The claim was inserted in the caller's transaction, at this instant of the database's clock. Some databases tell
   * the instant only when they are asked for it.
   */
  | { readonly status: 'won'; readonly processedAt?: Date }
  /** A live claim exists: committed by somebody else, or made earlier in this transaction. */
  | { readonly status: 'taken'; readonly firstProcessedAt: Date; readonly correlationId: string | undefined }

/**
 * The inbox table.
 *
 * - A claim is decided by one statement that inserts if absent. One whose retention has passed counts as absent, by the
 *   database's clock at the statement. It waits while somebody else's claim of the same key is neither committed nor
 *   rolled back. `'taken'` is said only of a live claim that is committed or the transaction's own. A live duplicate
 *   takes no row lock, writes nothing and leaves the transaction usable.
 * - A conflict that the database wants retried is a `TransactionConflictError`, never a `'taken'`.
 * - Nothing is written outside a transaction: `NotInTransactionError`.
 */
export interface InboxStore {
  /** One round trip for a fresh claim. */
  claim(session: Session, claim: Claim): Promise<ClaimResult>
  /**
   * All or none; results in the order given; the number of round trips does not depend on how many claims there are.
   * Claims are taken in one global order, so that two batches that share keys do not deadlock.
   *
   * `times`: `processedAt` is wanted of those that were won, too.
   */
  claimBatch(
    session: Session,
    claims: readonly Claim[],
    options: { readonly times: boolean },
  ): Promise<readonly ClaimResult[]>
  /** Is there a live claim? Takes no lock. */
  find(session: Session, consumer: string, key: string): Promise<boolean>
  /** Removes a claim, live or expired. → whether a live one was there. */
  remove(session: Session, consumer: string, key: string): Promise<boolean>
}
