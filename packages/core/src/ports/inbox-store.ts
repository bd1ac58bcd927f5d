import type { Session } from './session.ts'

/** A claim that a delivery tries to make. */
export interface Claim {
  readonly consumer: string
  /** The stored form of the key: see `inboxKey`. Distinct within one batch. */
  readonly key: string
  readonly correlationId: string | undefined
  /** How long the claim is remembered, counted from now by the database's clock. */
  readonly retentionMs: number
}

export type ClaimResult =
  /**
   * The claim was inserted in the caller's transaction, at this instant of the database's clock. Some databases return
   * the instant only on request.
   */
  | { readonly status: 'won'; readonly processedAt?: Date }
  /** A live claim exists: another transaction committed it, or this transaction made it earlier. */
  | { readonly status: 'taken'; readonly firstProcessedAt: Date; readonly correlationId: string | undefined }

/**
 * The inbox table.
 *
 * - One statement decides a claim: it inserts the claim if the key has none. A claim whose retention has passed, by the
 *   database's clock at the time of the statement, counts as absent. The statement waits while another transaction has
 *   a claim of the same key that is neither committed nor rolled back. The result is `'taken'` only if the live claim
 *   is committed or the transaction's own. A live duplicate takes no row lock, writes nothing and leaves the
 *   transaction usable.
 * - A conflict for which the database asks for a retry is a `TransactionConflictError`, never `'taken'`.
 * - Outside a transaction, every method throws `NotInTransactionError`, and nothing is written.
 */
export interface InboxStore {
  /** Makes one claim, with one round trip if the key is new. */
  claim(session: Session, claim: Claim): Promise<ClaimResult>
  /**
   * Makes all claims or none. The number of round trips does not depend on the number of claims. Claims are made in one
   * global order, so that two batches that share keys do not deadlock.
   *
   * @param options `times` asks for the `processedAt` of won claims.
   * @returns the results in the order of the claims.
   */
  claimBatch(
    session: Session,
    claims: readonly Claim[],
    options: { readonly times: boolean },
  ): Promise<readonly ClaimResult[]>
  /** Returns whether there is a live claim. Takes no lock. */
  find(session: Session, consumer: string, key: string): Promise<boolean>
  /** Removes a claim, live or expired. @returns whether there was a live claim. */
  remove(session: Session, consumer: string, key: string): Promise<boolean>
}
