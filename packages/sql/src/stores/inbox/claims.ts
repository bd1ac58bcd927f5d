import { TransactionAbortedError, TransactionConflictError } from '@txbox/core'
import type { Claim, ClaimResult } from '@txbox/core/ports'
import type { Row, RowReader } from '../row-reader.ts'

/**
 * The maximum number of attempts to make a claim while other transactions change its row. In practice, two or three
 * attempts suffice.
 */
export const CLAIM_ROUNDS = 20

export const CLAIMING = 'claiming the message in the inbox'

/** Returns the result for a key whose claim is live, from the row of the claim. */
export function duplicateClaim(read: RowReader, row: Row): ClaimResult {
  return {
    status: 'duplicate',
    firstProcessedAt: read.date(row, 'processed_at'),
    correlationId: read.optionalText(row, 'correlation_id'),
    contentHash: hashOf(read.optionalText(row, 'content_hash')),
    result: read.optionalText(row, 'result'),
  }
}

/** Returns whether the claim has more than a key, so that the shorter statements do not suffice. */
export function hasExtras({ contentHash, result }: Claim): boolean {
  return contentHash !== undefined || result !== undefined
}

function hashOf(hexadecimal: string | undefined): Uint8Array | undefined {
  return hexadecimal === undefined ? undefined : Buffer.from(hexadecimal, 'hex')
}

export const SAVING_RESULT = 'storing the result of the message in the inbox'

export function claimGone(): TransactionAbortedError {
  return new TransactionAbortedError(
    `${SAVING_RESULT}: the claim does not exist anymore, because it was removed or rolled back. Roll back.`,
  )
}

export function unsettledClaim(consumer: string): TransactionConflictError {
  return new TransactionConflictError(
    `${CLAIMING}: the claim of consumer '${consumer}' was changed by other transactions during each of ${CLAIM_ROUNDS} attempts. Roll back and ` +
      'run the transaction again.',
  )
}
