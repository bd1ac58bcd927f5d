/*
 * An INSERT on MySQL and MariaDB cannot do nothing on a conflict without taking locks, so the claim of an attempt is
 * read first. PostgreSQL has no such file: the statements of the inbox are enough.
 */
import type { Tables } from '../connection/identifiers.ts'

/** The statements of a repeatable receive that the inbox does not have. `?` is replaced by a value as a literal. */
export function queueAttemptStatements({ inbox }: Tables) {
  return {
    /**
     * Reads the claim that stores the answer of a receive, and locks it, so that concurrent repetitions wait for each
     * other.
     */
    remembered: `
select cast(i.expires_at > utc_timestamp(6) as char) as live, cast(i.result as binary) as result,
  cast(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as char) as now_us
from ${inbox} as i force index (primary)
where i.consumer = ? and i.\`key\` = ?
for update`,
  } as const
}
