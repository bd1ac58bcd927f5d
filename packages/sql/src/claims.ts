import { TransactionConflictError, type ClaimResult } from '@txbox/core'
import type { Row, RowReader } from './row-reader.ts'

/** The maximum number of attempts to decide a claim while others change the row. In practice two or three suffice. */
export const CLAIM_ROUNDS = 20

export const CLAIMING = 'claiming the message in the inbox'

/** The claim of a key that a row holds. */
export function takenClaim(read: RowReader, row: Row): ClaimResult {
  return {
    status: 'taken',
    firstProcessedAt: read.date(row, 'processed_at'),
    correlationId: read.optionalText(row, 'correlation_id'),
  }
}

export function unsettledClaim(consumer: string): TransactionConflictError {
  return new TransactionConflictError(
    `${CLAIMING}: the claim of consumer '${consumer}' was changed by other transactions during each of ${CLAIM_ROUNDS} attempts. Roll back and ` +
      'run the transaction again.',
  )
}
