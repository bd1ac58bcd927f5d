import { TransactionAbortedError, TransactionConflictError } from '@txbox/core'
import type { Claim, ClaimResult } from '@txbox/core/ports'
import type { Row, RowReader } from '../row-reader.ts'

/**
 * The maximum number of attempts to make a claim while other transactions change its row. In practice, two or three
 * attempts suffice.
 */
export const CLAIM_ROUNDS = 20

export const CLAIMING = 'claiming the message in the inbox'

/** A result that contains the instant of a claim that was won, where the claims were made with `isTimed`. */
export type TimedResult =
  | { readonly status: 'won'; readonly processedAt?: Date }
  | Exclude<ClaimResult, { status: 'won' }>

/**
 * Makes the first claim of each key. A later claim of the key has the same result, and is a duplicate of a claim that is won.
 *
 * @param make makes claims of distinct keys.
 */
export async function claimEachKeyOnce(
  claims: readonly Claim[],
  make: (claims: readonly Claim[], isTimed: boolean) => Promise<readonly TimedResult[]>,
): Promise<readonly ClaimResult[]> {
  const firsts = new Map<string, Claim>()
  for (const claim of claims) if (!firsts.has(claim.key)) firsts.set(claim.key, claim)
  if (firsts.size === claims.length) return make(claims, false)
  const results = await make([...firsts.values()], true)
  const resultOf = new Map([...firsts.keys()].map((key, n) => [key, results[n]!]))
  return claims.map(({ key }): ClaimResult => {
    const result = resultOf.get(key)!
    if (result.status !== 'won') return result
    const { correlationId, contentHash, result: stored } = firsts.get(key)!
    resultOf.set(key, {
      status: 'duplicate',
      firstProcessedAt: result.processedAt!,
      correlationId,
      contentHash,
      result: stored,
    })
    return result
  })
}

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
