/* MySQL and MariaDB have no INSERT that does nothing: the claim of an attempt is read first. */
import type { Tables } from './identifiers.ts'

/** The statements of a repeated receive on the inbox table that the inbox has not. `?` is replaced by a value as a literal. */
export function queueAttemptStatements({ inbox }: Tables) {
  return {
    /** The claim that remembers the answer of a receive. Concurrent repetitions wait for each other. */
    remembered: `
select cast(i.expires_at > utc_timestamp(6) as char) as live, cast(i.result as binary) as result,
  cast(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as char) as now_us
from ${inbox} as i force index (primary)
where i.consumer = ? and i.\`key\` = ?
for update`,
  } as const
}
