/* Statements on PostgreSQL share the lookup of the lease. Those on MySQL and MariaDB contain a condition on the lease. */

/** The text of the server's error when the lease is no longer held. */
export const LEASE_LOST = 'txbox: the lease is lost'

/** A condition on `held` that is true as long as the lease has not expired. Part of a CASE that a locked row decides. */
export const STILL_HELD = 'held.expires_at > pg_catalog.clock_timestamp()'

/** Returns one row if the lease is held now, by a plain read: a renewal never waits for a handler's transaction. */
export function heldNow(schema: string): string {
  return `held as materialized (
  select true as found, expires_at from ${schema}.leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
)`
}
