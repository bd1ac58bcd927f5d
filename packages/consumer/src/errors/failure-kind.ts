import { isTxboxError, type RetryLaterError, type TxboxErrorCode } from '@txbox/core'
import { isFullDisk, propertyOf, readOnlyPart } from '@txbox/core/internal'

/** Errors of the database or a dedup store, which all messages need. No single message causes these errors. */
const UNAVAILABLE: ReadonlySet<TxboxErrorCode> = new Set<TxboxErrorCode>([
  'TXBOX_DATABASE_UNAVAILABLE',
  'TXBOX_DATABASE_ACCESS',
  'TXBOX_SCHEMA',
  'TXBOX_DEDUP_STORE_UNAVAILABLE',
])

/** Errors that another attempt with the same message would meet again. */
const PERMANENT: ReadonlySet<TxboxErrorCode> = new Set<TxboxErrorCode>([
  'TXBOX_PERMANENT',
  'TXBOX_INVALID_MESSAGE',
])

/** Errors of a place that may keep a rejected message later. */
const REFUSED_FOR_NOW: ReadonlySet<TxboxErrorCode> = new Set<TxboxErrorCode>([
  'TXBOX_RETRY_LATER',
  'TXBOX_BROKER_UNAVAILABLE',
])

/**
 * Returns whether all messages fail at the moment, so that this failure does not count.
 *
 * @param hasWritten whether the database has accepted a write in the handler's transaction. If it refuses a later write
 *   because the transaction is read-only, the handler itself has made the transaction, or another one, read-only.
 */
export function isUnavailable(error: unknown, hasWritten: boolean): boolean {
  const part = readOnlyPart(error)
  if (part === 'transaction' && hasWritten) return false
  return isTxboxError(error) ? UNAVAILABLE.has(error.code) : isFullDisk(error) || part === 'server'
}

/** Returns whether a message that failed with this error can never succeed. */
export function isPermanent(error: unknown): boolean {
  return isTxboxError(error) && PERMANENT.has(error.code)
}

/** Returns whether a source that could not keep a rejected message may keep it later. */
export function isRefusedForNow(error: unknown): boolean {
  return isTxboxError(error) && REFUSED_FOR_NOW.has(error.code)
}

/** Returns whether a transaction could not commit, other than by a conflict or an outage. */
export function isTransactionAborted(error: unknown): boolean {
  return isTxboxError(error) && error.code === 'TXBOX_TRANSACTION_ABORTED'
}

/** Returns whether a part of the failed transaction may be committed, so that the handler must not run again. */
export function mayHaveCommitted(error: unknown): boolean {
  return isTransactionAborted(error) && propertyOf(error, 'mayHaveCommitted') === true
}

/** Returns whether the handler asked for another attempt at a certain time. */
export function isRetryLater(error: unknown): error is RetryLaterError {
  return isTxboxError(error) && error.code === 'TXBOX_RETRY_LATER'
}

/** Returns whether handling has taken longer than `handleTimeoutMs`. */
export function isTimedOut(error: unknown): boolean {
  return isTxboxError(error) && error.code === 'TXBOX_HANDLE_TIMEOUT'
}

/** Returns whether the consumer itself has ended the handler's work, because the consumer stops. */
export function isStopped(error: unknown): boolean {
  return isTxboxError(error) && error.code === 'TXBOX_CONSUMER_STOPPED'
}
