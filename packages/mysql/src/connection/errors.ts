/*
 * The errors of MySQL and MariaDB are identified by number, because mysql2's `code` names some errors of MariaDB
 * wrongly. PostgreSQL has SQLSTATEs instead. If there is no connection, an error has no number, and is identified by
 * the message of the driver. https://dev.mysql.com/doc/mysql-errors/9.0/en/server-error-reference.html
 * https://mariadb.com/kb/en/mariadb-error-code-reference/
 */
import {
  isCausedBy,
  isClusterConflict,
  isFullDisk,
  isMysqlConflict,
  propertyOf,
  readOnlyPart,
} from '@txbox/core/internal'
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

/** A lock on a row, or on a table, could not be acquired in time. */
export const LOCK_WAIT_TIMEOUT = 1205

/** A statement with NOWAIT found a row that another transaction has locked. */
export const LOCK_NOT_AVAILABLE = 3572

export const DUPLICATE_KEY = 1062

export const TABLE_ACCESS_DENIED = 1142
/** The user does not have a privilege that concerns the whole server. */
export const PRIVILEGE_MISSING = 1227

export const NO_SAVEPOINT = 1305

export const NOT_PREPARED = 1295

/** The level of a transaction cannot change while the transaction is in progress. */
export const IN_PROGRESS = 1568

/** Incorrect string value: the text contains a character that the column cannot store. */
export const UNTRANSLATABLE = 1366

/** The result of an expression is out of the range of its type. */
export const OUT_OF_RANGE = 1690

/** The statement was interrupted: by MySQL's max_execution_time, MariaDB's max_statement_time, or KILL QUERY. */
const INTERRUPTED: ReadonlySet<unknown> = new Set([3024, 1969, 1317])

const DISCONNECTED_IDLE = 4031

/** Unknown table, unknown column. */
export const NO_TABLE = 1146
const SCHEMA: ReadonlySet<unknown> = new Set([NO_TABLE, 1054])

/**
 * The user may not access the database, or may not connect from this host; the user or the database does not exist; the
 * password is wrong or missing.
 */
const REFUSED: ReadonlySet<unknown> = new Set([1044, 1045, 1049, 1130, 1698])

/**
 * Too many connections (of the server, of the user); a node that is currently in no Galera cluster, and an error during
 * COMMIT; shutting down; broken connection; killed connection (MariaDB); disconnected for inactivity.
 */
const UNAVAILABLE_NUMBERS: ReadonlySet<unknown> = new Set([
  ...[1040, 1203, 1226],
  ...[1047, 1180],
  ...[1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, DISCONNECTED_IDLE],
  // The connector `mariadb` has error numbers of its own: the connection is closed, broken or late, or the pool is
  // closed.
  ...[45001, 45004, 45009, 45012, 45013, 45019, 45026, 45042, 45027, 45035, 45037],
])
/**
 * Errors of a pool of the connector `mariadb` that could not get a connection. If the error has a cause, the cause is
 * the reason, unless Prisma has made a text of it.
 */
const POOL_NUMBERS: ReadonlySet<unknown> = new Set([45028, 45039, 45060, 45061])
const UNAVAILABLE_CODES: ReadonlySet<unknown> = new Set([
  'PROTOCOL_CONNECTION_LOST',
  'HANDSHAKE_NO_SSL_SUPPORT',
  'HANDSHAKE_SSL_ERROR',
  'PROTOCOL_SEQUENCE_TIMEOUT',
  ...CONNECTION_CODES,
])
/** Errors of mysql2 without a specific code. Knex puts the statement and a hyphen before the message. */
const UNAVAILABLE_MESSAGES =
  /(?:^|; - )(?:Can't add new command when connection is in closed state|Connection lost|Pool is closed|Queue limit reached|No connections available|The operation was aborted due to timeout)/

/** The connection has ended before the statement was sent. */
const ENDED_MESSAGES = /connection is in closed state/

export function isConflict(error: unknown): boolean {
  return isConflictCausedBy(error, (at) => isMysqlConflict(at) || isTxboxConflict(at))
}

export function isLastingConflict(error: unknown): boolean {
  return isConflictCausedBy(error, isClusterConflict)
}

/** Also true for an error that was caused by an error with this number. */
export function hasNumber(error: unknown, number: number): boolean {
  return isCausedBy(error, (at) => numberOf(at) === number)
}

/** mysql2 has the server's number as `errno`; Prisma has it as the text `originalCode`. */
export function numberOf(error: unknown): number | undefined {
  const number = propertyOf(error, 'errno')
  if (typeof number === 'number') return number
  const original = propertyOf(error, 'originalCode')
  return typeof original === 'string' ? Number(original) : undefined
}

export function isTimeout(error: unknown): boolean {
  return INTERRUPTED.has(numberOf(error))
}

/** An error that has no txbox class is returned unchanged. */
export const translate = translateBy(meaningOf)

export const errors: DatabaseErrors = {
  translate,
  isConflict,
  // MariaDB closes the connection without a reason. mysql2 has the number as `code` if no statement was in flight.
  idleLimitOf: (error) =>
    isCausedBy(error, (at) => [numberOf(at), propertyOf(at, 'code')].includes(DISCONNECTED_IDLE))
      ? 'wait_timeout'
      : undefined,
  isLastingConflict,
  // A lock wait timeout is not worth repeating: a transaction that has held a lock for that long is unlikely to end
  // soon.
  isWorthRepeating: (error) => isConflict(error) && numberOf(error) !== LOCK_WAIT_TIMEOUT,
}

function meaningOf(error: object, quoted: string): Meaning | undefined {
  const number = numberOf(error)
  if (isMysqlConflict(error)) return conflict(quoted)
  if (isFullDisk(error)) return fullDisk(quoted)
  if (readOnlyPart(error) !== undefined) return readOnly(quoted)
  if (SCHEMA.has(number)) return noTables(quoted, 'have another prefix', '{ prefix } to mysql()')
  if (REFUSED.has(number)) {
    return accessRefused(quoted, 'the user, the password, and the host from which the user may connect')
  }
  const isUnavailable =
    UNAVAILABLE_NUMBERS.has(number) ||
    (POOL_NUMBERS.has(number) && typeof propertyOf(error, 'cause') !== 'object') ||
    UNAVAILABLE_CODES.has(propertyOf(error, 'code')) ||
    UNAVAILABLE_MESSAGES.test(quoted) ||
    isFullPool(error)
  if (!isUnavailable) return undefined
  return unavailable(
    quoted,
    ENDED_MESSAGES.test(quoted) ? 'wait_timeout (MariaDB: or idle_transaction_timeout)' : undefined,
  )
}
