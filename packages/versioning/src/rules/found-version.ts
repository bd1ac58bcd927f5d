import { InvalidOptionError } from '@txbox/core'
import { OptionChecker, nameOf, oneLine } from '@txbox/core/internal'
import { VersionConflictError } from '../errors.ts'
import { asKindOf, exactVersion, type Version } from '../version.ts'

/** A row, as error messages describe it. */
interface Described {
  readonly doing: string
}

export function versionColumnOf(where: string, options: { versionColumn?: unknown }): string {
  return new OptionChecker(where, options).text('versionColumn', { max: 255, default: 'version' })
}

/** @throws {InvalidOptionError} when the version is null or not a whole number. */
export function foundVersion(row: Described, column: string, found: string | null): bigint {
  if (found !== null && /^-?\d+$/.test(found)) return BigInt(found)
  throw new InvalidOptionError(
    `${row.doing}: the column '${oneLine(column)}' holds ${nameOf(found)}, which is not a version; expected a whole number. Correct the ` +
      'value, and make the column NOT NULL with an integer type.',
  )
}

/** @throws {VersionConflictError} when the row is at another version. */
export function conflictUnlessAt(
  row: Described,
  where: string,
  expected: Version,
  actual: bigint,
): undefined {
  if (actual === exactVersion(where, 'expected', expected)) return undefined
  throw new VersionConflictError(
    `${row.doing} is at version ${actual}, not at the expected version ${expected}. Nothing was written. Read the row again, ` +
      'decide again and retry.',
    { expected, actual: asKindOf(where, expected, actual) },
  )
}
