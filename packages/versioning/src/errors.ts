import { TxboxError } from '@txbox/core'
import type { Version } from './version.ts'

/** There is no row with this key. */
export class RowNotFoundError extends TxboxError {
  /** The table, as the caller named it. */
  readonly table: string

  constructor(message: string, { table }: { table: string }) {
    super('TXBOX_ROW_NOT_FOUND', message)
    this.table = table
  }
}

/**
 * The row is not at the expected version. Read the row again, decide again, and write again; `retryOnConflict` does
 * this.
 */
export class VersionConflictError extends TxboxError {
  readonly expected: Version
  /** The row's version when it was read, with the same type as `expected`. */
  readonly actual: Version

  constructor(message: string, { expected, actual }: { expected: Version; actual: Version }) {
    super('TXBOX_VERSION_CONFLICT', message, { retryable: true })
    this.expected = expected
    this.actual = actual
  }
}

/**
 * The row is before `from`: a change is missing. Try again when the missing change has been applied, or use a version
 * buffer.
 */
export class VersionGapError extends TxboxError {
  readonly from: Version
  readonly actual: Version

  constructor(message: string, { from, actual }: { from: Version; actual: Version }) {
    super('TXBOX_VERSION_GAP', message, { retryable: true })
    this.from = from
    this.actual = actual
  }
}

/**
 * The row is between `from` and `to`: it contains changes that the sender of the message does not know. Retrying does
 * not help.
 */
export class VersionDivergedError extends TxboxError {
  readonly from: Version
  readonly to: Version
  readonly actual: Version

  constructor(message: string, { from, to, actual }: { from: Version; to: Version; actual: Version }) {
    super('TXBOX_VERSION_DIVERGED', message)
    this.from = from
    this.to = to
    this.actual = actual
  }
}

/** The move is not allowed from the row's current state, but a later state of the row may allow it. */
export class TransitionTooEarlyError extends TxboxError {
  /** The row's state. */
  readonly from: string
  readonly to: string

  constructor(message: string, { from, to }: { from: string; to: string }) {
    super('TXBOX_TRANSITION_TOO_EARLY', message, { retryable: true })
    this.from = from
    this.to = to
  }
}

/** The state machine has no path from the row's state to the requested state, nor back. Retrying does not help. */
export class TransitionRefusedError extends TxboxError {
  /** The row's state; `null` if the column is null. */
  readonly from: string | null
  readonly to: string

  constructor(message: string, { from, to }: { from: string | null; to: string }) {
    super('TXBOX_TRANSITION_REFUSED', message)
    this.from = from
    this.to = to
  }
}

/** A version buffer was called from inside `apply` for the key that `apply` works on. Nothing was written. */
export class ReentrantCallError extends TxboxError {
  constructor(message: string) {
    super('TXBOX_REENTRANT_CALL', message)
  }
}

/** Another writer changed the row during each attempt. */
export class EditConflictError extends TxboxError {
  readonly attempts: number

  constructor(message: string, { attempts, cause }: { attempts: number; cause: unknown }) {
    super('TXBOX_EDIT_CONFLICT', message, { retryable: true, cause })
    this.attempts = attempts
  }
}
