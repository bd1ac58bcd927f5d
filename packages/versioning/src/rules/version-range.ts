import { InvalidMessageError } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import type { VersionRange } from '@txbox/core/ports'

/** Every type of whole numbers of every database holds the versions from 0 to this one. */
const HELD_BY_ALL = 127n

/**
 * Checks that a column can hold versions. PostgreSQL would refuse a greater one with an error that aborts the transaction, and
 * without strict mode MySQL and MariaDB would store another version.
 *
 * @param rangeOf returns the range of the column; with `again`, as the server has it now, because the type may have been
 *   altered since the range was asked for.
 * @throws {InvalidMessageError} when the column cannot hold one of the versions: another attempt would fail as well.
 */
export async function assertVersionsFit(
  row: { readonly doing: string },
  column: string,
  versions: readonly bigint[],
  rangeOf: (options: { again: boolean }) => Promise<VersionRange | undefined>,
): Promise<void> {
  const unusual = versions.filter((version) => version < 0n || version > HELD_BY_ALL)
  if (unusual.length === 0) return
  const outsideOf = (range: VersionRange | undefined): bigint | undefined =>
    range && unusual.find((version) => version < range.min || version > range.max)
  if (outsideOf(await rangeOf({ again: false })) === undefined) return
  const range = await rangeOf({ again: true })
  const outside = outsideOf(range)
  if (range === undefined || outside === undefined) return
  throw new InvalidMessageError(
    `${row.doing}: the column '${oneLine(column)}' cannot hold the version ${outside}: its type, ${oneLine(range.type)}, holds ` +
      `${range.min} to ${range.max}. Nothing was written. Correct the version, or change the type of the column to bigint.`,
  )
}
