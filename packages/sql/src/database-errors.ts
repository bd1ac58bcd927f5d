import {
  DatabaseUnavailableError,
  TransactionConflictError,
  isTxboxError,
  type TxboxError,
} from '@txbox/core'
import { propertyOf, reasonOf } from '@txbox/core/internal'

/** What txbox asks about the errors of one database. */
export interface DatabaseErrors {
  /** The txbox error for an error of the driver; an error without a txbox class comes out unchanged. */
  readonly translate: (error: unknown, doing: string) => unknown
  /** See `DatabasePorts.isConflict`. */
  readonly isConflict: (error: unknown) => boolean
  /** See `DatabasePorts.isLastingConflict`. */
  readonly isLastingConflict: (error: unknown) => boolean
  /** Is it worth repeating one of txbox's own transactions at once? */
  readonly isWorthRepeating: (error: unknown) => boolean
}

/** What an error means to a user of txbox: the class of the txbox error, and its message. */
export interface Meaning {
  readonly type: new (message: string, options: { cause: unknown }) => TxboxError
  /** Follows what was being done, and a colon. */
  readonly message: string
}

/** The errors by which Node.js reports that there is no connection. */
export const NETWORK_CODES = [
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT',
] as const

const CONFLICT = 'TXBOX_TRANSACTION_CONFLICT'

/** The maximum number of characters that a message quotes from the server. */
const QUOTED_CHARACTERS = 300

/** How many levels of causes are searched. */
const LEVELS = 10

export function conflict(quoted: string): Meaning {
  return {
    type: TransactionConflictError,
    message: `the database asks for another attempt (${quoted}). Roll back and run the transaction again.`,
  }
}

export function unavailable(quoted: string): Meaning {
  return {
    type: DatabaseUnavailableError,
    message:
      `the database cannot be reached (${quoted}). Check its address, that it runs and takes connections, ` +
      'and try again.',
  }
}

/** Translates an error by what one database means by it. `meaningOf` gets the error and a quotation of the server's words. */
export function translateBy(
  meaningOf: (error: object, quoted: string) => Meaning | undefined,
): DatabaseErrors['translate'] {
  return (error, doing) => {
    if (typeof error !== 'object' || error === null || isTxboxError(error)) return error
    const meaning = meaningOf(error, reasonOf(error, QUOTED_CHARACTERS))
    if (meaning === undefined) return error
    return new meaning.type(`${doing}: ${meaning.message}`, { cause: error })
  }
}

/** Is this a conflict that txbox reports? */
export function isTxboxConflict(error: unknown): boolean {
  return propertyOf(error, 'code') === CONFLICT
}

/** Does this hold for the error, or for a cause of it? The search ends at any txbox error that is not a conflict. */
export function isConflictCausedBy(error: unknown, holds: (error: object) => boolean): boolean {
  for (const at of withCauses(error)) {
    if (holds(at)) return true
    // The thrower of another txbox error has decided, whatever caused that error.
    if (isTxboxError(at) && !isTxboxConflict(at)) return false
  }
  return false
}

/** Does this hold for the error, or for one of its causes? */
export function isCausedBy(error: unknown, holds: (error: object) => boolean): boolean {
  for (const at of withCauses(error)) if (holds(at)) return true
  return false
}

function* withCauses(error: unknown): Generator<object> {
  for (let at = error, level = 0; typeof at === 'object' && at !== null && level < LEVELS; level++) {
    yield at
    at = propertyOf(at, 'cause')
  }
}
