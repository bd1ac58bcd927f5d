import { propertyOf } from './property-of.ts'

/** The `code` of every error that txbox throws. */
export type TxboxErrorCode =
  | 'TXBOX_INVALID_OPTION'
  | 'TXBOX_INVALID_MESSAGE'
  | 'TXBOX_UNSUPPORTED_TRANSACTION'
  | 'TXBOX_NOT_IN_TRANSACTION'
  | 'TXBOX_TRANSACTION_ABORTED'
  | 'TXBOX_TRANSACTION_CONFLICT'
  | 'TXBOX_SCHEMA'
  | 'TXBOX_DATABASE_UNAVAILABLE'
  | 'TXBOX_DATABASE_ACCESS'
  | 'TXBOX_LEASE_LOST'
  | 'TXBOX_SETTLEMENT'
  | 'TXBOX_PUBLISH_TIMEOUT'
  | 'TXBOX_GARBAGE_COLLECTION'
  | 'TXBOX_BROKER_UNAVAILABLE'
  | 'TXBOX_PERMANENT'
  | 'TXBOX_RETRY_LATER'
  | 'TXBOX_ROW_NOT_FOUND'
  | 'TXBOX_VERSION_CONFLICT'
  | 'TXBOX_VERSION_GAP'
  | 'TXBOX_VERSION_DIVERGED'
  | 'TXBOX_TRANSITION_TOO_EARLY'
  | 'TXBOX_TRANSITION_REFUSED'
  | 'TXBOX_EDIT_CONFLICT'
  | 'TXBOX_REENTRANT_CALL'
  | 'TXBOX_BATCHER_CLOSED'
  | 'TXBOX_RECEIPT_EXPIRED'
  | 'TXBOX_RECEIVE_ATTEMPT'
  | 'TXBOX_DEDUP_STORE_UNAVAILABLE'
  | 'TXBOX_HANDLE_TIMEOUT'
  | 'TXBOX_CONSUMER_STOPPED'
  | 'TXBOX_INVALID_SIGNATURE'
  | 'TXBOX_START'

/** The symbol is registered, so that an error is recognized across two installed copies of this package. */
const brand = Symbol.for('txbox.error')

/**
 * The base class of all errors that txbox throws. `code` is stable. The text says what happened, to which message, what
 * was expected and what to do. Neither holds payloads or connection strings.
 */
export class TxboxError extends Error {
  /** The stable name of the kind of error, for programs. */
  readonly code: TxboxErrorCode
  /** Whether the same call, made again in a new transaction, can succeed. */
  readonly retryable: boolean

  constructor(code: TxboxErrorCode, message: string, options: { cause?: unknown; retryable?: boolean } = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.name = new.target.name
    this.code = code
    this.retryable = options.retryable ?? false
    Object.defineProperty(this, brand, { value: true })
  }
}

/**
 * Returns whether `error` is an error of txbox, including one from another installed copy, for which `instanceof` is
 * false.
 */
export function isTxboxError(error: unknown): error is TxboxError {
  return propertyOf(error, brand) === true
}

/** An option is missing, unknown, of the wrong type or out of its bounds. Thrown when the object is made. */
export class InvalidOptionError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_INVALID_OPTION', message, options)
  }
}

/** A message has no usable key, or holds a value that cannot be stored. Nothing was written. */
export class InvalidMessageError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_INVALID_MESSAGE', message, options)
  }
}

/** The value that was passed as a transaction belongs to no library that txbox knows. Nothing was written. */
export class UnsupportedTransactionError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_UNSUPPORTED_TRANSACTION', message, options)
  }
}

/** A pool, a root or a connection without an open transaction was passed. Nothing was written. */
export class NotInTransactionError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_NOT_IN_TRANSACTION', message, options)
  }
}

/**
 * The transaction can no longer commit, or no longer contains its claim: the handler swallowed an SQL error, ended the
 * transaction, or rolled back to a savepoint from before the claim, or the server ended the transaction
 * (transaction_timeout). Roll back. After a swallowed error nothing was written, and a redelivery runs the handler
 * again. A handler that committed the transaction itself has committed its claim too.
 */
export class TransactionAbortedError extends TxboxError {
  /**
   * Whether some of what the transaction wrote may be committed: a statement ended it in the middle, and did not roll it back.
   * Otherwise nothing of it is stored.
   */
  readonly mayHaveCommitted: boolean

  constructor(message: string, options: { cause?: unknown; mayHaveCommitted?: boolean } = {}) {
    super('TXBOX_TRANSACTION_ABORTED', message, options)
    this.mayHaveCommitted = options.mayHaveCommitted ?? false
  }
}

/**
 * The database asks for the transaction to be run again: serialization failure, deadlock or lock timeout. Always
 * retryable, in a new transaction.
 */
export class TransactionConflictError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_TRANSACTION_CONFLICT', message, { ...options, retryable: true })
  }
}

/**
 * The tables of txbox are missing or have another revision. The message names the command that creates or updates the
 * tables.
 */
export class SchemaError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_SCHEMA', message, options)
  }
}

/** The database cannot be reached, refuses connections, or broke the connection. Retryable. */
export class DatabaseUnavailableError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_DATABASE_UNAVAILABLE', message, { ...options, retryable: true })
  }
}

/**
 * The server has no such database or user, refuses the password, or does not let the user connect from this host. Not
 * retryable: the settings of the connection or of the server must change first.
 */
export class DatabaseAccessError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_DATABASE_ACCESS', message, options)
  }
}

/**
 * A relay tried to settle messages, or a request to store its response, under a lease that has expired or that another owner has
 * taken. Nothing was changed.
 */
export class LeaseLostError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_LEASE_LOST', message, options)
  }
}

/**
 * A relay published messages, but the database does not let the relay delete their rows: a row-level security policy, a
 * trigger or a missing privilege keeps the rows. The relay holds the shard back, so that the same messages are not
 * published again.
 */
export class SettlementError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_SETTLEMENT', message, options)
  }
}

/**
 * A call of the publisher takes longer than `publishTimeoutMs`. The signal of the call has been aborted. The shard of
 * the call waits until the call ends; the other shards continue. Retryable: messages without a result are published again.
 */
export class PublishTimeoutError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_PUBLISH_TIMEOUT', message, { ...options, retryable: true })
  }
}

/**
 * Several batches of a garbage collector failed in a row; `cause` is the error of the last one. The rows that earlier
 * batches removed stay removed.
 */
export class GarbageCollectionError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_GARBAGE_COLLECTION', message, { ...options, retryable: true })
  }
}

/**
 * The broker cannot be reached, refused or broke the connection, does not confirm, or has no such exchange. The result
 * of the messages in flight is unknown. Always retryable: publish the same messages again.
 */
export class BrokerUnavailableError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_BROKER_UNAVAILABLE', message, { ...options, retryable: true })
  }
}

/**
 * The receipt is no longer valid: the visibility timeout of the message has passed, the message was handled, given back or
 * received again, or the receipt belongs to another queue. Nothing was changed. Not retryable: roll back the work, because
 * another receiver may have the message.
 */
export class ReceiptExpiredError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_RECEIPT_EXPIRED', message, options)
  }
}

/**
 * A receive was repeated with its `attemptId`, but at least one of its messages was meanwhile handled, given back or
 * received again, so that the same answer cannot be given. Nothing was received. Receive with another id.
 */
export class ReceiveAttemptError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_RECEIVE_ATTEMPT', message, options)
  }
}

/**
 * A dedup store cannot be reached or refuses its commands. Nothing is known about the message, and no attempt is counted.
 * Always retryable.
 */
export class DedupStoreUnavailableError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_DEDUP_STORE_UNAVAILABLE', message, { ...options, retryable: true })
  }
}

/** Handlers and publishers throw this error for a message that can never succeed. The message is not tried again. */
export class PermanentError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_PERMANENT', message, options)
  }
}

/** Handlers throw this error for a message that cannot be handled now. The message is tried again later. */
export class RetryLaterError extends TxboxError {
  /** The minimum wait before the next attempt, in milliseconds. @default 0 */
  readonly retryAfterMs: number

  constructor(
    options: { retryAfterMs?: number | undefined; message?: string | undefined; cause?: unknown } = {},
  ) {
    if (typeof options !== 'object' || options === null) {
      throw new InvalidOptionError(
        'RetryLaterError: expected an object of options, such as { retryAfterMs: 5000 }, not a value of another kind.',
      )
    }
    const retryAfterMs = options.retryAfterMs ?? 0
    if (!Number.isFinite(retryAfterMs) || retryAfterMs < 0) {
      const given = typeof retryAfterMs === 'number' ? retryAfterMs : `a ${typeof retryAfterMs}`
      throw new InvalidOptionError(
        `RetryLaterError: retryAfterMs must be a number of milliseconds of 0 or more, not ${given}.`,
      )
    }
    super(
      'TXBOX_RETRY_LATER',
      options.message ?? `Try again in ${retryAfterMs} ms.`,
      'cause' in options ? { cause: options.cause, retryable: true } : { retryable: true },
    )
    this.retryAfterMs = retryAfterMs
  }
}
