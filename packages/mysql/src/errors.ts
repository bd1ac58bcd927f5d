import {
  DatabaseAccessError,
  DatabaseUnavailableError,
  SchemaError,
  TransactionConflictError,
  isTxboxError,
  propertyOf,
  reasonOf,
} from '@txbox/core'

/*
 * Errors of MySQL and MariaDB by number, because mysql2's `code` names some of MariaDB's wrongly:
 * https://dev.mysql.com/doc/mysql-errors/9.0/en/server-error-reference.html
 * https://mariadb.com/kb/en/mariadb-error-code-reference/
 * After the numbers comes what the driver says when there is no connection.
 */

/** Group Replication: at COMMIT the certification found a conflict with a transaction on another node. */
const ROLLED_BACK_BY_GROUP = 3101

/**
 * Deadlock; lock wait timeout; lock not available (NOWAIT); row changed since the snapshot (MariaDB); rolled back by
 * the group's certification. Run the transaction again.
 */
const CONFLICTS: ReadonlySet<unknown> = new Set([1213, 1205, 3572, 1020, ROLLED_BACK_BY_GROUP])

/**
 * An error during COMMIT. Error 149 in its text is a deadlock: Group Replication uses it when another node was first. Any
 * other number comes from the cluster or the disk: Galera uses it when it has lost the connection to its primary component.
 */
const ERROR_DURING_COMMIT = 1180
const DEADLOCK_DURING_COMMIT = /\berror 149\b/i

const CONFLICT = 'TXBOX_TRANSACTION_CONFLICT'

/** A lock on a row, or on a table, could not be acquired in time. */
export const LOCK_WAIT_TIMEOUT = 1205

/** A key is there already. */
export const DUPLICATE_KEY = 1062

/** This user may not do that to this table. */
export const TABLE_ACCESS_DENIED = 1142

/** SAVEPOINT does not exist. */
export const NO_SAVEPOINT = 1305

/** Interrupted: by MySQL's max_execution_time, MariaDB's max_statement_time, or by KILL QUERY. */
const INTERRUPTED: ReadonlySet<unknown> = new Set([3024, 1969, 1317])

/** Unknown table, unknown column. */
export const NO_TABLE = 1146
const SCHEMA: ReadonlySet<unknown> = new Set([NO_TABLE, 1054])

/** No right to the database, no such user or a wrong password, no such database, not from this host, no password given. */
const REFUSED: ReadonlySet<unknown> = new Set([1044, 1045, 1049, 1130, 1698])

/**
 * Too many connections (of the server, of the user); read-only after a failover; shutting down; broken connection; killed
 * connection (MariaDB); ended for inactivity; a node that is in no Galera cluster now, and an error during COMMIT.
 */
const UNAVAILABLE_NUMBERS: ReadonlySet<unknown> = new Set([
  ...[1040, 1203, 1226],
  ...[1047, ERROR_DURING_COMMIT],
  ...[1290, 1836],
  ...[1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 4031],
])
const UNAVAILABLE_CODES: ReadonlySet<unknown> = new Set([
  ...[
    'PROTOCOL_CONNECTION_LOST',
    'HANDSHAKE_NO_SSL_SUPPORT',
    'HANDSHAKE_SSL_ERROR',
    'PROTOCOL_SEQUENCE_TIMEOUT',
  ],
  ...['ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH'],
  ...['ENOTFOUND', 'EAI_AGAIN', 'ENOENT'],
])
/** mysql2 gives these no code of their own. */
const UNAVAILABLE_MESSAGES =
  /^(Can't add new command when connection is in closed state|Connection lost|Pool is closed|Queue limit reached|No connections available|The operation was aborted due to timeout)/

/** See `DatabasePorts.isConflict`. */
export function isConflict(error: unknown): boolean {
  return anyOf(error, isConflictItself)
}

/** See `DatabasePorts.isLastingConflict`. */
export function isLastingConflict(error: unknown): boolean {
  return anyOf(error, (at) => numberOf(at) === ROLLED_BACK_BY_GROUP || isDeadlockDuringCommit(at))
}

/** Is this true of the error, or of one of its causes? */
function anyOf(error: unknown, holds: (at: object) => boolean): boolean {
  for (let at = error, depth = 0; typeof at === 'object' && at !== null && depth < 10; depth++) {
    if (holds(at)) return true
    // Whoever threw one of our other errors has decided, whatever caused it.
    if (isTxboxError(at) && propertyOf(at, 'code') !== CONFLICT) return false
    at = propertyOf(at, 'cause')
  }
  return false
}

/** Is this the server's error with that number, or caused by such an error? */
export function hasNumber(error: unknown, number: number): boolean {
  for (let at: unknown = error, depth = 0; typeof at === 'object' && at !== null && depth < 10; depth++) {
    if (numberOf(at) === number) return true
    at = Reflect.get(at, 'cause')
  }
  return false
}

function isConflictItself(error: unknown): boolean {
  return (
    isDeadlockDuringCommit(error) || CONFLICTS.has(numberOf(error)) || propertyOf(error, 'code') === CONFLICT
  )
}

function isDeadlockDuringCommit(error: unknown): boolean {
  return numberOf(error) === ERROR_DURING_COMMIT && DEADLOCK_DURING_COMMIT.test(reasonOf(error))
}

/** The server's number of an error, which mysql2 calls `errno`. */
export function numberOf(error: unknown): number | undefined {
  const number = propertyOf(error, 'errno')
  return typeof number === 'number' ? number : undefined
}

/** The maximum length of a quotation from the server, in characters. */
const SAID_CHARACTERS = 300

/** Did the statement take too long? */
export function isTimeout(error: unknown): boolean {
  return INTERRUPTED.has(numberOf(error))
}

/** Our error for one of the driver's. What we have no word for comes out as it is. */
export function translate(error: unknown, doing: string): unknown {
  if (typeof error !== 'object' || error === null || isTxboxError(error)) return error
  const number = numberOf(error)
  const code = propertyOf(error, 'code')
  const said = reasonOf(error, SAID_CHARACTERS)
  const options = { cause: error }
  if (isConflictItself(error)) {
    return new TransactionConflictError(
      `${doing}: the database asks for another attempt (${said}). Roll back and run the transaction again.`,
      options,
    )
  }
  if (SCHEMA.has(number)) {
    return new SchemaError(
      `${doing}: ${said}. The tables of txbox are missing or of another revision, or the prefix is another one. Run ` +
        "'npx txbox migrate' or call migrate(db), or pass the right { prefix } to mysql().",
      options,
    )
  }
  if (REFUSED.has(number)) {
    return new DatabaseAccessError(
      `${doing}: the server refused the connection (${said}). Check the name of the database, the user, the password, and ` +
        'the host that the user may come from.',
      options,
    )
  }
  if (UNAVAILABLE_NUMBERS.has(number) || UNAVAILABLE_CODES.has(code) || UNAVAILABLE_MESSAGES.test(said)) {
    return new DatabaseUnavailableError(
      `${doing}: the database cannot be reached (${said}). Check its address, that it runs and takes connections, ` +
        'and try again.',
      options,
    )
  }
  return error
}
