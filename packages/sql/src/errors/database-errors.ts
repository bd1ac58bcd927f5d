import {
  DatabaseAccessError,
  DatabaseUnavailableError,
  SchemaError,
  TransactionConflictError,
  isTxboxError,
  type TxboxError,
} from '@txbox/core'
import { NETWORK_CODES, propertyOf, reasonOf, withCauses } from '@txbox/core/internal'
import { namesSeenTable } from './seen-tables.ts'

export interface DatabaseErrors {
  /** Translates an error of the driver to a txbox error. An error that has no txbox class is returned unchanged. */
  readonly translate: (error: unknown, doing: string) => unknown
  /** See `DatabasePorts.isConflict`. */
  readonly isConflict: (error: unknown) => boolean
  /** See `DatabasePorts.isLastingConflict`. */
  readonly isLastingConflict: (error: unknown) => boolean
  /**
   * Returns the name of the server's setting if the server reports by this error that it has ended the connection because the
   * connection was idle for too long.
   */
  readonly idleLimitOf: (error: unknown) => string | undefined
  /** Returns whether one of txbox's own transactions should be repeated at once after this error. */
  readonly isWorthRepeating: (error: unknown) => boolean
}

/** The class and the message of the txbox error for an error of a driver. */
export interface Meaning {
  readonly type: new (message: string, options: { cause: unknown }) => TxboxError
  /** The text after a description of the operation and a colon. */
  readonly message: string
}

/** The codes by which Node.js, `fetch` and Prisma report that there is no connection. ENOENT: there is no such Unix socket. */
export const CONNECTION_CODES = [...NETWORK_CODES, 'ENOENT', 'P1001', 'P1002', 'P1008', 'P1017'] as const

/** The errors of Knex and Sequelize, without a code, when no connection of their pool becomes free in time. */
const FULL_POOL: ReadonlySet<unknown> = new Set([
  'KnexTimeoutError',
  'SequelizeConnectionAcquireTimeoutError',
])

/** Whether a call waited in vain for a connection of the library's pool. */
export function isFullPool(error: object): boolean {
  return FULL_POOL.has(propertyOf(error, 'name'))
}

const CONFLICT = 'TXBOX_TRANSACTION_CONFLICT'

/** The maximum number of characters of the server's message that an error message quotes. */
const QUOTED_CHARACTERS = 300

/** Where the table of migrations is left, or this process has used the tables, they were not forgotten: they were dropped. */
const GONE =
  'The tables of txbox are gone: they were created, and something has dropped them since, such as a schema tool of an ORM. ' +
  'Messages and claims that were in them are lost. Let the tool leave the tables of txbox alone, and create them again with ' +
  "the SQL of 'npx txbox migrate --print'."

export function conflict(quoted: string): Meaning {
  return {
    type: TransactionConflictError,
    message: `the database asks for another attempt (${quoted}). Roll back and run the transaction again.`,
  }
}

/**
 * @param elsewhere where else the tables may be.
 * @param option how the user passes the right place.
 */
export function noTables(quoted: string, elsewhere: string, option: string): Meaning {
  if (namesSeenTable(quoted)) return { type: SchemaError, message: `${quoted}. ${GONE}` }
  return {
    type: SchemaError,
    message:
      `${quoted}. The tables of txbox are missing or have another revision, or they ${elsewhere}. Run ` +
      `'npx txbox migrate' or call migrate(db), or pass the right ${option}.`,
  }
}

/** @param check what to check beside the name of the database. */
export function accessRefused(quoted: string, check: string): Meaning {
  return {
    type: DatabaseAccessError,
    message: `the server refused the connection (${quoted}). Check the name of the database, ${check}.`,
  }
}

/**
 * @param idleLimit the setting of the server that limits how long a transaction may be idle, if the connection may have ended
 *   because of it.
 */
export function unavailable(quoted: string, idleLimit?: string): Meaning {
  const ended =
    idleLimit === undefined
      ? ''
      : ` The connection ended while no statement was in flight: perhaps the transaction was idle for longer than ${idleLimit}.`
  return {
    type: DatabaseUnavailableError,
    message:
      `the database cannot be reached (${quoted}).${ended} Check its address, that it runs and takes connections, ` +
      'and try again.',
  }
}

export function readOnly(quoted: string): Meaning {
  return {
    type: DatabaseUnavailableError,
    message:
      `the database accepts no writes (${quoted}). The server is read-only, as a standby is, and a former primary after a ` +
      'failover; or the transaction was begun READ ONLY. Check that the address leads to the primary, and try again.',
  }
}

export function fullDisk(quoted: string): Meaning {
  return {
    type: DatabaseUnavailableError,
    message:
      `the disk of the database server is full (${quoted}). Free space on it. Everything then continues by itself, ` +
      'without a restart.',
  }
}

/**
 * Returns a function that translates the errors of one database. `meaningOf` gets the error, and a quotation of the
 * server's message.
 */
export function translateBy(
  meaningOf: (error: object, quoted: string) => Meaning | undefined,
): DatabaseErrors['translate'] {
  return (error, doing) => {
    if (typeof error !== 'object' || error === null || isTxboxError(error)) return error
    for (const at of withCauses(error)) {
      const meaning = meaningOf(at, reasonOf(at, QUOTED_CHARACTERS))
      if (meaning !== undefined) return new meaning.type(`${doing}: ${meaning.message}`, { cause: error })
    }
    return error
  }
}

export async function translatingErrors<R>(
  { translate }: Pick<DatabaseErrors, 'translate'>,
  doing: string,
  work: () => Promise<R>,
): Promise<R> {
  try {
    return await work()
  } catch (error) {
    throw translate(error, doing)
  }
}

export function isTxboxConflict(error: unknown): boolean {
  return propertyOf(error, 'code') === CONFLICT
}

/**
 * Returns whether `holds` is true for the error or one of its causes. The search ends at a txbox error that is not a
 * conflict.
 */
export function isConflictCausedBy(error: unknown, holds: (error: object) => boolean): boolean {
  for (const at of withCauses(error)) {
    if (holds(at)) return true
    // Any other txbox error is final, whatever its cause.
    if (isTxboxError(at) && !isTxboxConflict(at)) return false
  }
  return false
}
