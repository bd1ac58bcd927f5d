import { isCausedBy } from './causes.ts'
import { propertyOf } from './property-of.ts'
import { reasonOf } from './reason-of.ts'

/*
 * The errors by which a database reports that its disk is full: one list for the statements of txbox, and for those of
 * the user's handlers, whose messages are not to blame.
 */

/** PostgreSQL: disk full. */
const SQLSTATE = '53100'

/** MySQL and MariaDB: disk full, table full; the disk is full (of a file). */
const NUMBERS: ReadonlySet<unknown> = new Set([1021, 1114, 20])

/**
 * MySQL and MariaDB: error of the storage engine, error while a file is written. The text contains the number of the operating
 * system: 28 is ENOSPC, 122 is EDQUOT. The same error during COMMIT (1180) is not among them: the transaction may have
 * committed.
 */
const NUMBERS_WITH_REASON: ReadonlySet<unknown> = new Set([1030, 3, 1026])
const NO_SPACE = /\b(?:error|errno|Errcode):? (?:28|122)\b|No space left on device|Disk quota exceeded/i

/** Also looks at the causes of the error. */
export function isFullDisk(error: unknown): boolean {
  return isCausedBy(error, isFullDiskItself)
}

/** Prisma keeps the server's code as `originalCode`. */
function isFullDiskItself(error: unknown): boolean {
  const original = propertyOf(error, 'originalCode')
  if (propertyOf(error, 'code') === SQLSTATE || original === SQLSTATE) return true
  const number = propertyOf(error, 'errno') ?? (typeof original === 'string' ? Number(original) : undefined)
  return NUMBERS.has(number) || (NUMBERS_WITH_REASON.has(number) && NO_SPACE.test(reasonOf(error)))
}
