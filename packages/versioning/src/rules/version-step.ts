import { InvalidOptionError } from '@txbox/core'
import { VersionDivergedError, VersionGapError } from '../errors.ts'
import { asKindOf, exactVersion, type Version } from '../version.ts'

/**
 * @throws {InvalidOptionError} when `from` and `to` are not versions of the same type, or `to` is not greater than
 *   `from`.
 */
export function checkedStep(
  where: string,
  { from, to }: { from: Version; to: Version },
): readonly [from: bigint, to: bigint] {
  const exact = [exactVersion(where, 'from', from), exactVersion(where, 'to', to)] as const
  if (exact[1] <= exact[0] || typeof from !== typeof to) {
    throw new InvalidOptionError(
      `${where}: 'to' must be of the same type as 'from', and greater; 'from' is ${from}, 'to' is ${to}.`,
    )
  }
  return exact
}

/**
 * Checks that a row or chain at the version `actual`, which is below `to`, is exactly at `from`.
 *
 * @throws {VersionGapError} when `actual` is before `from`.
 * @throws {VersionDivergedError} when `actual` is after `from`.
 */
export function assertStepFits(
  doing: string,
  { from, to }: { from: Version; to: Version },
  actual: bigint,
): void {
  const at = asKindOf(doing, from, actual)
  if (actual < BigInt(from)) {
    throw new VersionGapError(
      `${doing} is at version ${actual}; the change leads from ${from} to ${to}, so the changes in between are missing. ` +
        'Nothing was written. Try again when the missing changes have been applied.',
      { from, actual: at },
    )
  }
  if (actual > BigInt(from)) {
    throw new VersionDivergedError(
      `${doing} is at version ${actual}, between the versions ${from} and ${to} of the change: it contains changes that the sender ` +
        'does not know. Nothing was written. Find the second writer, and set the row to a state and a version of the sender.',
      { from, to, actual: at },
    )
  }
}
