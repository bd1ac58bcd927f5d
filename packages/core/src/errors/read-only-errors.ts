import { withCauses } from './causes.ts'
import { propertyOf } from './property-of.ts'

/*
 * The errors by which a database refuses to write: the server is a standby or a former primary, an administrator has made
 * it read-only, or the transaction was begun READ ONLY.
 */

/** The transaction is read-only. PostgreSQL answers so on a standby, too. MySQL and MariaDB have a number for it. */
const SQLSTATE = '25006'
const OF_TRANSACTION = 1792

/** MySQL and MariaDB: the server is read-only. */
const OF_SERVER = 1836
/** MySQL and MariaDB: an option of the server forbids the statement. Only the text names the option. */
const OF_OPTION = 1290
const READ_ONLY_OPTION = /--(?:super[-_])?read[-_]only\b/

/**
 * Returns what refuses to write according to this error or one of its causes: `'server'`, or `'transaction'` if the
 * server may accept writes in other transactions.
 */
export function readOnlyPart(error: unknown): 'server' | 'transaction' | undefined {
  for (const at of withCauses(error)) {
    const part = partItself(at)
    if (part !== undefined) return part
  }
  return undefined
}

/** Prisma keeps the server's code as `originalCode`. */
function partItself(error: unknown): 'server' | 'transaction' | undefined {
  const original = propertyOf(error, 'originalCode')
  if (propertyOf(error, 'code') === SQLSTATE || original === SQLSTATE) return 'transaction'
  const number = propertyOf(error, 'errno') ?? (typeof original === 'string' ? Number(original) : undefined)
  if (number === OF_TRANSACTION) return 'transaction'
  const isOption = number === OF_OPTION && READ_ONLY_OPTION.test(String(propertyOf(error, 'message')))
  return isOption || number === OF_SERVER ? 'server' : undefined
}
