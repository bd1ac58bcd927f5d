/*
 * PostgreSQL identifies its errors by SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html). MySQL and
 * MariaDB number their errors instead. An error is classified by its exact code, then by the class of the code, and if
 * there is no connection by the message of the driver.
 */
import { DatabaseAccessError, InvalidMessageError, TransactionAbortedError } from '@txbox/core'
import { isCausedBy, isFullDisk, isPostgresConflict, propertyOf, readOnlyPart } from '@txbox/core/internal'
import {
  CONNECTION_CODES,
  accessRefused,
  conflict,
  fullDisk,
  isConflictCausedBy,
  isFullPool,
  isTxboxConflict,
  noTables,
  readOnly,
  translateBy,
  unavailable,
  type DatabaseErrors,
  type Meaning,
} from '@txbox/sql/transactions'

/** The statement was canceled by statement_timeout or by an administrator. */
const CANCELED = '57014'

/** Undefined table, column, schema. */
const SCHEMA: ReadonlySet<unknown> = new Set(['42P01', '42703', '3F000'])

/** No such database, no such role, a role that may not connect from this host, a wrong password. */
const REFUSED: ReadonlySet<unknown> = new Set(['3D000', '28000', '28P01'])

/**
 * An earlier error has aborted the transaction; or the transaction took longer than transaction_timeout, which also
 * breaks the connection.
 */
const FAILED_BEFORE = '25P02'
const TRANSACTION_TIMEOUT = '25P04'

/** The transaction was idle for longer than idle_in_transaction_session_timeout. */
const IDLE_IN_TRANSACTION = '25P03'

/** A character that the encoding of the database cannot represent. */
export const UNTRANSLATABLE = '22P05'

/**
 * The server was shut down, has crashed or is starting up; the connection was idle for too long; there are too many
 * connections.
 */
const UNAVAILABLE: ReadonlySet<unknown> = new Set([
  ...['57P01', '57P02', '57P03', '57P05', IDLE_IN_TRANSACTION, '53300'],
  ...CONNECTION_CODES,
  // Codes of postgres.js.
  ...['CONNECTION_CLOSED', 'CONNECTION_DESTROYED', 'CONNECTION_ENDED', 'CONNECT_TIMEOUT'],
])

/** Errors of `pg`, `pg-pool` and Slonik without a code. Knex puts the statement and a hyphen before the message. */
const UNAVAILABLE_MESSAGES =
  /(?:^|; - )(?:Connection terminated|Connection ended unexpectedly|Client has encountered a connection error|Client was closed|Client is pending destroy|timeout exceeded when trying to connect|Query read timeout|The operation was aborted due to timeout)/

/** The connection has ended before the statement was sent. */
const ENDED_MESSAGES = /Client has encountered a connection error/

/** PgBouncer with `pool_mode = statement`, with the same code as for a lost connection. */
const STATEMENT_MODE = /transaction blocks not allowed in statement pooling mode/

/** Returns whether this error, or one of its causes, asks for the transaction to be run again. */
export function isConflict(error: unknown): boolean {
  return isConflictCausedBy(error, (at) => isPostgresConflict(at) || isTxboxConflict(at))
}

export function isTimeout(error: unknown): boolean {
  return propertyOf(error, 'code') === CANCELED
}

/** Returns whether this is an error of the server with this SQLSTATE, or was caused by one. */
export function hasCode(error: unknown, code: string): boolean {
  return isCausedBy(error, (at) => propertyOf(at, 'code') === code)
}

export const translate = translateBy(meaningOf)

export const errors: DatabaseErrors = {
  translate,
  isConflict,
  idleLimitOf: (error) =>
    hasCode(error, IDLE_IN_TRANSACTION) ? 'idle_in_transaction_session_timeout' : undefined,
  // PostgreSQL has a single primary: no other node writes.
  isLastingConflict: () => false,
  isWorthRepeating: isConflict,
}

function meaningOf(error: object, quoted: string): Meaning | undefined {
  // Prisma keeps the server's code as `originalCode`.
  const code = propertyOf(error, 'code') ?? propertyOf(error, 'originalCode')
  if (isPostgresConflict(error)) return conflict(quoted)
  if (isFullDisk(error)) return fullDisk(quoted)
  if (readOnlyPart(error) !== undefined) return readOnly(quoted)
  if (code === FAILED_BEFORE || propertyOf(error, 'name') === 'AbortedTransactionError') {
    return {
      type: TransactionAbortedError,
      message:
        'an earlier statement of the transaction failed, so it can only roll back. Nothing was written.',
    }
  }
  if (SCHEMA.has(code)) return noTables(quoted, 'are in another schema', '{ schema } to postgres()')
  if (code === TRANSACTION_TIMEOUT) {
    return {
      type: TransactionAbortedError,
      message:
        `the transaction took longer than the server allows (${quoted}), and was rolled back. Make the transaction ` +
        'shorter, or raise transaction_timeout.',
    }
  }
  if (code === UNTRANSLATABLE) {
    return {
      type: InvalidMessageError,
      message:
        `the encoding of the database does not have one of the characters (${quoted}). Roll back; a database in UTF8 ` +
        'accepts every character. Nothing was written.',
    }
  }
  if (STATEMENT_MODE.test(quoted)) {
    return {
      type: DatabaseAccessError,
      message: `the pooler allows no transactions (${quoted}). Use its transaction mode or its session mode.`,
    }
  }
  if (REFUSED.has(code)) return accessRefused(quoted, 'the role, the password, and pg_hba.conf')
  const isUnavailable =
    UNAVAILABLE.has(code) ||
    isClass(code, '08') ||
    UNAVAILABLE_MESSAGES.test(quoted) ||
    isFullPool(error) ||
    isSocketEvent(error)
  if (!isUnavailable) return undefined
  return unavailable(quoted, ENDED_MESSAGES.test(quoted) ? 'idle_in_transaction_session_timeout' : undefined)
}

/** Neon's driver rejects with the event by which its WebSocket reports a failure. The event is not an Error. */
function isSocketEvent(error: object): boolean {
  return propertyOf(error, 'type') === 'error' && !(error instanceof Error)
}

function isClass(code: unknown, sqlstateClass: string): boolean {
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && code.startsWith(sqlstateClass)
}
