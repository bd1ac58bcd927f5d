/* On MySQL and MariaDB an existing row is an error of a plain INSERT; PostgreSQL has ON CONFLICT DO NOTHING and RETURNING. */
import type { Tables } from '../connection/identifiers.ts'

/** All statements on the claims under a lease. `?` is replaced by a value as a literal. */
export function dedupLeaseStatements({ dedupLeases }: Tables) {
  const after = 'utc_timestamp(6) + interval ? microsecond'
  const held =
    'where consumer = ? and `key` = ? and token = ? and processed_at is null and expires_at > utc_timestamp(6)'
  return {
    /** Inserts a claim, or fails with 1062. */
    begin: `
insert into ${dedupLeases} (consumer, \`key\`, token, expires_at, content_hash)
values (?, ?, ?, ${after}, ?)`,

    /**
     * Takes over an expired claim. If several statements try at the same time, one of them gets the row. The primary key is forced,
     * because a search by expires_at would lock the rows of other keys.
     */
    renew: `
update ${dedupLeases} force index (primary)
set token = ?, expires_at = ${after}, content_hash = ?, processed_at = null, result = null
where consumer = ? and \`key\` = ? and expires_at <= utc_timestamp(6)`,

    /** This is a plain read, which takes no lock. The first value is the token. */
    read: `
select cast(expires_at > utc_timestamp(6) as char) as live, cast(token = ? as char) as own,
  cast(timestampdiff(microsecond, '1970-01-01', processed_at) as char) as processed_at,
  cast(timestampdiff(microsecond, utc_timestamp(6), expires_at) div 1000 + 1 as char) as remaining_ms,
  cast(result as binary) as result, hex(content_hash) as content_hash
from ${dedupLeases}
where consumer = ? and \`key\` = ?`,

    /** A matching row is always changed, so that the count is the same with and without the driver's FOUND_ROWS flag. */
    complete: `
update ${dedupLeases} force index (primary)
set processed_at = utc_timestamp(6), expires_at = ${after}, result = ?
${held}`,

    release: `
delete l
from ${dedupLeases} as l force index (primary)
where l.consumer = ? and l.\`key\` = ? and l.token = ? and l.processed_at is null and l.expires_at > utc_timestamp(6)`,

    extend: `
update ${dedupLeases} force index (primary)
set expires_at = ${after}
${held}`,
  } as const
}
