/* PostgreSQL has ON CONFLICT DO NOTHING and RETURNING; on MySQL and MariaDB an existing row is an error of a plain INSERT. */
/**
 * All statements on the claims under a lease. `schema` is quoted. $1 is the consumer, $2 the key, and $3 the token of the owner.
 *
 * A claim is INSERT … DO NOTHING, like that of an inbox, so that the row of a live claim is only read.
 */
export function dedupLeaseStatements(schema: string) {
  const leases = `${schema}.dedup_leases`
  const after = 'pg_catalog.clock_timestamp() + $4::interval'
  const held = `where consumer = $1 and key = $2 and token = $3::uuid and processed_at is null
  and expires_at > pg_catalog.clock_timestamp()`
  return {
    /** Waits for another transaction that inserts the key. $4 is the lease. */
    begin: `
insert into ${leases} (consumer, key, token, expires_at, content_hash)
values ($1, $2, $3::uuid, ${after}, pg_catalog.decode($5, 'hex'))
on conflict (consumer, key) do nothing
returning 'true' as changed`,

    /** Takes over an expired claim. If several statements try at the same time, one of them gets the row. */
    renew: `
update ${leases}
set token = $3::uuid, expires_at = ${after}, content_hash = pg_catalog.decode($5, 'hex'), processed_at = null, result = null
where consumer = $1 and key = $2 and expires_at <= pg_catalog.clock_timestamp()
returning 'true' as changed`,

    read: `
select (expires_at > pg_catalog.clock_timestamp())::text as live, (token = $3::uuid)::text as own,
  pg_catalog.floor(pg_catalog.date_part('epoch', processed_at) * 1000::double precision)::bigint::text as processed_at,
  pg_catalog.ceil(pg_catalog.date_part('epoch', expires_at - pg_catalog.clock_timestamp()) * 1000::double precision)::bigint::text as remaining_ms,
  result, pg_catalog.encode(content_hash, 'hex') as content_hash
from ${leases}
where consumer = $1 and key = $2`,

    /** $4 is the retention. */
    complete: `
update ${leases}
set processed_at = pg_catalog.clock_timestamp(), expires_at = ${after}, result = $5
${held}
returning 'true' as changed`,

    release: `
delete from ${leases}
${held}
returning 'true' as changed`,

    /** $4 is the lease. */
    extend: `
update ${leases}
set expires_at = ${after}
${held}
returning 'true' as changed`,
  } as const
}
