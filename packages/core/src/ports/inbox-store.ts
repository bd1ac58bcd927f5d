import type { Session } from './session.ts'

/** A claim that a delivery tries to make. */
export interface Claim {
  readonly consumer: string
  /** The stored form of the key: see `inboxKey`. */
  readonly key: string
  readonly correlationId: string | undefined
  /** How long the claim is remembered, counted from now by the database's clock. */
  readonly retentionMs: number
  /** The SHA-256 of the content, 32 bytes, to distinguish other content under the same key. */
  readonly contentHash?: Uint8Array | undefined
  /** A result that is known before the claim is made. At most `LIMITS.resultBytes` in UTF-8. */
  readonly result?: string | undefined
}

export interface ClaimOptions {
  /**
   * What a claim does while another transaction has a claim of the same key that is neither committed nor rolled back:
   * `'wait'` for the end of that transaction, or `'report'` it as `'in-flight'` at once (on MySQL within about a
   * second). On PostgreSQL a claim is reported only if it was itself made with `'report'`. @default 'wait'
   */
  readonly inFlight?: 'wait' | 'report' | undefined
  /**
   * The longest wait for a lock, in milliseconds; MySQL and MariaDB round it up to whole seconds. A longer wait is a
   * `TransactionConflictError`. Changes no setting of the connection beyond the claim. @default the connection's setting
   */
  readonly lockTimeoutMs?: number | undefined
}

export type ClaimResult =
  /** The claim was inserted in the caller's transaction. */
  | { readonly status: 'won' }
  /**
   * A live claim exists: another transaction committed it, or this transaction made it earlier. `contentHash` and
   * `result` are those of the live claim; `claimBatch` returns them only if one of its own claims has either.
   */
  | {
      readonly status: 'duplicate'
      readonly firstProcessedAt: Date
      readonly correlationId: string | undefined
      readonly contentHash: Uint8Array | undefined
      readonly result: string | undefined
    }
  /** Another transaction has an open claim of the key. Only with `inFlight: 'report'`. */
  | { readonly status: 'in-flight' }

/** The guard of claims that were won for a handler. */
export interface HandlerGuard {
  /**
   * Runs the handler in the transaction of the claims. Before the handler, verifies that the transaction was not rolled back
   * since the claims; after the handler, that the claims exist and commit with what the handler has written. An error that the
   * handler throws is rethrown unchanged. Must be called once. The checks cost a round trip only for libraries that hide the
   * state of the transaction.
   *
   * @throws {NotInTransactionError} when the transaction has ended before the handler, which is then not called.
   * @throws {TransactionAbortedError} when the handler returns although an error aborted the transaction, the handler
   *   ended the transaction, or the claims were rolled back.
   */
  run<R>(handler: () => Promise<R> | R): Promise<R>
}

export type HandlerClaim =
  | ({ readonly status: 'won' } & HandlerGuard)
  | Exclude<ClaimResult, { status: 'won' }>

/** The claims of a batch, with one guard for all claims that were won. `run` must be called only if there is one. */
export interface HandlerClaims extends HandlerGuard {
  /** The results in the order of the claims. */
  readonly results: readonly ClaimResult[]
}

/**
 * The inbox table.
 *
 * - One statement decides a claim: it inserts the claim if the key has none. A claim whose retention has passed, by the
 *   database's clock at the time of the statement, counts as absent. The statement waits while another transaction has
 *   a claim of the same key that is neither committed nor rolled back. The result is `'duplicate'` only if the live claim
 *   is committed or the transaction's own. A live duplicate takes no row lock, writes nothing and leaves the
 *   transaction usable.
 * - A conflict for which the database asks for a retry is a `TransactionConflictError`, never `'duplicate'`.
 * - Outside a transaction, every method throws `NotInTransactionError`, and nothing is written.
 */
export interface InboxStore {
  /** Makes one claim, with one round trip if the key is new and there are no options. No handler runs after the claim. */
  claim(session: Session, claim: Claim, options?: ClaimOptions): Promise<ClaimResult>
  /**
   * Makes all claims or none. The number of round trips does not depend on the number of claims. Claims are made in one
   * global order, so that two batches that share keys do not deadlock. No handler runs after the claims.
   *
   * @param claims have distinct keys.
   * @returns the results in the order of the claims.
   */
  claimBatch(
    session: Session,
    claims: readonly Claim[],
    options?: ClaimOptions,
  ): Promise<readonly ClaimResult[]>
  /**
   * Makes a claim, as `claim` does, for a handler: a claim that is won runs the handler, and guards it. What the guard must send
   * before the handler travels with the claim.
   */
  claimToHandle(session: Session, claim: Claim, options?: ClaimOptions): Promise<HandlerClaim>
  /**
   * Makes claims for a handler, as `claimBatch` does. Of several claims of one key, the first is made; the others have its
   * result, and are duplicates if it is won.
   */
  claimBatchToHandle(
    session: Session,
    claims: readonly Claim[],
    options?: ClaimOptions,
  ): Promise<HandlerClaims>
  /**
   * Stores the result of a claim that this transaction has won.
   *
   * @throws {TransactionAbortedError} when the claim does not exist anymore.
   */
  saveResult(session: Session, claim: Pick<Claim, 'consumer' | 'key'>, result: string): Promise<void>
  /**
   * Gives the claim of the key a new retention, which begins now, if the claim has this result.
   *
   * @returns false if the key has no claim with this result.
   */
  extend(
    session: Session,
    claim: Pick<Claim, 'consumer' | 'key' | 'retentionMs'> & { readonly result: string },
    options: Required<Pick<ClaimOptions, 'lockTimeoutMs'>>,
  ): Promise<boolean>
  /** Returns whether there is a live claim. Takes no lock. */
  find(session: Session, consumer: string, key: string): Promise<boolean>
  /** Returns the time of the database when it runs the statement. Needs no transaction, and does not check that one is open. */
  clock(session: Session): Promise<Date>
  /** Removes a claim, live or expired. @returns whether there was a live claim. */
  remove(session: Session, consumer: string, key: string): Promise<boolean>
  /**
   * Removes claims, live or expired, that this transaction has won. The number of round trips does not depend on the
   * number of keys.
   */
  removeBatch(session: Session, consumer: string, keys: readonly string[]): Promise<void>
}
