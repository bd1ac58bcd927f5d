import { InvalidMessageError, InvalidOptionError } from '@txbox/core'
import type { Instant } from './instant.ts'

export function timeRounded(row: { readonly doing: string }, at: Instant): InvalidOptionError {
  return new InvalidOptionError(
    `${row.doing}: the column of the time would round ${at.iso}, so an older change could overwrite a newer one. Nothing ` +
      'was written. Change the type of the column to timestamptz without a precision; on MySQL and MariaDB to DATETIME(6).',
  )
}

export function timeAhead(row: { readonly doing: string }, at: Instant): InvalidMessageError {
  return new InvalidMessageError(
    `${row.doing}: the time of the change, ${at.iso}, is ahead of the database's clock by more than 'maxAheadMs'. Nothing was ` +
      "written. Correct the sender's clock.",
  )
}
