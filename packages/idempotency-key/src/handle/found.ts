import type { ClaimResult } from '@txbox/core/ports'
import type { CheckedResponse } from '../response/response-checks.ts'

/** The claim of a request that was handled. */
export type StoredClaim = Pick<Extract<ClaimResult, { status: 'duplicate' }>, 'contentHash' | 'result'>

/** The state of a request with a key, as the database or this process knows it. */
export type Found =
  | { readonly kind: 'handled'; readonly response: CheckedResponse }
  | { readonly kind: 'duplicate'; readonly claim: StoredClaim }
  | { readonly kind: 'in-flight' }
