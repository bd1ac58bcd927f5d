import {
  DatabaseAccessError,
  DatabaseUnavailableError,
  InvalidMessageError,
  SchemaError,
  TransactionAbortedError,
  TransactionConflictError,
  isTxboxError,
  propertyOf,
  reasonOf,
} from '@txbox/core'

/*
 * Errors of PostgreSQL by SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html
 * The exact code comes first, then its class, then what the drivers say when there is no connection.
 */

/** Serialization failure, deadlock, lock not available: run the transaction again. */
const CONFLICTS: ReadonlySet<unknown> = new Set(['40001', '40P01', '55P03'])

/** Cancelled: by statement_timeout, or by somebody who watches over long statements. */
const CANCELLED = '57014'

/** Undefined table, column, schema. */
const SCHEMA: ReadonlySet<unknown> = new Set(['42P01', '42703', '3F000'])

/** No such database, no such role, a role that may not connect from this host, a wrong password. */
const REFUSED: ReadonlySet<unknown> = new Set(['3D000', '28000', '28P01'])

/** The transaction has failed already; it took longer than transaction_timeout, which also breaks the connection. */
const FAILED_BEFORE = '25P02'
const TRANSACTION_TIMEOUT = '25P04'

/** A character that the encoding of the database does not have. */
const UNTRANSLATABLE = '22P05'

/** Shut down, crashed, starting up, too many connections, read-only after a failover; Node's own. */
const UNAVAILABLE: ReadonlySet<unknown> = new Set([
  ...['57P01', '57P02', '57P03', '57P05', '25P03', '53300', '25006'],
  ...[
    'ECONNREFUSED',
    'ECONNRESET',
    'EPIPE',
    'ETIMEDOUT',
    'ENOTFOUND',
    'EAI_AGAIN',
    'EHOSTUNREACH',
    'ENETUNREACH',
  ],
  ...['ENOENT', 'ECONNABORTED'],
])

/** `pg` and `pg-pool` give these no code. */
const UNAVAILABLE_MESSAGES =
  /^(Connection terminated|Client has encountered a connection error|Client was closed|timeout exceeded when trying to connect|Query read timeout|The operation was aborted due to timeout)/

/** Does this error, or one that caused it, ask for the transaction to be run again? */
export function isConflict(error: unknown): boolean {
  for (let at: unknown = error, depth = 0; typeof at === 'object' && at !== null && depth < 10; depth++) {
    const code = propertyOf(at, 'code')
    if (CONFLICTS.has(code) || code === 'TXBOX_TRANSACTION_CONFLICT') return true
    // Whoever threw one of our other errors has decided, whatever caused it.
    if (isTxboxError(at)) return false
    at = propertyOf(at, 'cause')
  }
  return false
}

/** The maximum length of a quotation from the server, in characters. */
const SAID_CHARACTERS = 300

/** Did the statement take too long? */
export function isTimeout(error: unknown): boolean {
  return propertyOf(error, 'code') === CANCELLED
}

/** Is this the server's error with that SQLSTATE, or caused by such an error? */
export function hasCode(error: unknown, code: string): boolean {
  for (let at: unknown = error, depth = 0; typeof at === 'object' && at !== null && depth < 10; depth++) {
    if (Reflect.get(at, 'code') === code) return true
    at = Reflect.get(at, 'cause')
  }
  return false
}

/** Our error for one of the driver's. What we have no word for comes out as it is. */
export function translate(error: unknown, doing: string): unknown {
  if (typeof error !== 'object' || error === null || isTxboxError(error)) return error
  const code = propertyOf(error, 'code')
  const said = reasonOf(error, SAID_CHARACTERS)
  const options = { cause: error }
  if (CONFLICTS.has(code)) {
    return new TransactionConflictError(
      `${doing}: the database asks for another attempt (${said}). Roll back and run the transaction again.`,
      options,
    )
  }
  if (code === FAILED_BEFORE || propertyOf(error, 'name') === 'AbortedTransactionError') {
    return new TransactionAbortedError(
      `${doing}: an earlier statement of the transaction failed, so it can only roll back. Nothing was written.`,
      options,
    )
  }
  if (SCHEMA.has(code)) {
    return new SchemaError(
      `${doing}: ${said}. The tables of txbox are missing or of another revision, or the schema is another one. Run ` +
        "'npx txbox migrate' or call migrate(db), or pass the right { schema } to postgres().",
      options,
    )
  }
  if (code === TRANSACTION_TIMEOUT) {
    return new TransactionAbortedError(
      `${doing}: the transaction took longer than the server lets one take (${said}), and was rolled back. Make the transaction ` +
        'shorter, or raise transaction_timeout.',
      options,
    )
  }
  if (code === UNTRANSLATABLE) {
    return new InvalidMessageError(
      `${doing}: the encoding of the database does not have one of the characters (${said}). Roll back; a database in UTF8 ` +
        'takes every character. Nothing was written.',
      options,
    )
  }
  if (REFUSED.has(code)) {
    return new DatabaseAccessError(
      `${doing}: the server refused the connection (${said}). Check the name of the database, the role, the password, and ` +
        'pg_hba.conf.',
      options,
    )
  }
  if (UNAVAILABLE.has(code) || isClass(code, '08') || UNAVAILABLE_MESSAGES.test(said)) {
    return new DatabaseUnavailableError(
      `${doing}: the database cannot be reached (${said}). Check its address, that it runs and takes connections, ` +
        'and try again.',
      options,
    )
  }
  return error
}

function isClass(code: unknown, sqlstateClass: string): boolean {
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && code.startsWith(sqlstateClass)
}
