import { DatabaseUnavailableError, SchemaError, TransactionConflictError, isTxboxError } from '@txbox/core'

/*
 * Errors of MySQL and MariaDB by number, because mysql2's `code` names some of MariaDB's wrongly:
 * https://dev.mysql.com/doc/mysql-errors/9.0/en/server-error-reference.html
 * https://mariadb.com/kb/en/mariadb-error-code-reference/
 * After the numbers comes what the driver says when there is no connection.
 */

/**
 * Deadlock; lock wait timeout; lock not available (NOWAIT); row changed since the snapshot (MariaDB); rolled back by
 * the group's certification. Run the transaction again.
 */
const CONFLICTS: ReadonlySet<unknown> = new Set([1213, 1205, 3572, 1020, 3101])

/** A lock on a row, or on a table, was not to be had in time. */
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

/**
 * Too many connections (of the server, of the user); refused credentials, host, database; read-only after a failover;
 * shutting down; broken connection; killed connection (MariaDB); ended for inactivity.
 */
const UNAVAILABLE_NUMBERS: ReadonlySet<unknown> = new Set([
  ...[1040, 1203, 1226],
  ...[1044, 1045, 1049, 1130],
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

/** Does this error, or one that caused it, ask for the transaction to be run again? */
export function isConflict(error: unknown): boolean {
  for (let at: unknown = error, depth = 0; typeof at === 'object' && at !== null && depth < 10; depth++) {
    if (CONFLICTS.has(numberOf(at)) || Reflect.get(at, 'code') === 'TXBOX_TRANSACTION_CONFLICT') return true
    // Whoever threw one of our other errors has decided, whatever caused it.
    if (isTxboxError(at)) return false
    at = Reflect.get(at, 'cause')
  }
  return false
}

/** Is this the server's error of that number, or caused by it? */
export function hasNumber(error: unknown, number: number): boolean {
  for (let at: unknown = error, depth = 0; typeof at === 'object' && at !== null && depth < 10; depth++) {
    if (numberOf(at) === number) return true
    at = Reflect.get(at, 'cause')
  }
  return false
}

/** The server's number of an error, which mysql2 calls `errno`. */
export function numberOf(error: unknown): number | undefined {
  const number: unknown =
    typeof error === 'object' && error !== null ? Reflect.get(error, 'errno') : undefined
  return typeof number === 'number' ? number : undefined
}

/** Did the statement take too long? */
export function isTimeout(error: unknown): boolean {
  return INTERRUPTED.has(numberOf(error))
}

/** Our error for one of the driver's. What we have no word for comes out as it is. */
export function translate(error: unknown, doing: string): unknown {
  if (typeof error !== 'object' || error === null || isTxboxError(error)) return error
  const number = numberOf(error)
  const code: unknown = Reflect.get(error, 'code')
  const said = error instanceof Error && error.message !== '' ? error.message : String(code)
  const options = { cause: error }
  if (CONFLICTS.has(number)) {
    return new TransactionConflictError(
      `${doing}: the database asks for another attempt (${said}). Roll back and run the transaction again.`,
      options,
    )
  }
  if (SCHEMA.has(number)) {
    return new SchemaError(
      `${doing}: ${said}. The tables of txbox are missing or of another revision, or the prefix is another one. Run ` +
        "'npx @txbox/cli migrate' or call migrate(db), or pass the right { prefix } to mysql().",
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
