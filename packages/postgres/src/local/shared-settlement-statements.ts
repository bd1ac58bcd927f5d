/*
 * PostgreSQL settles the shards of a consumer in one transaction of two statements. MySQL and MariaDB would need several statements for
 * each shard, and settle each shard by itself.
 */
import { stampIn } from '../relay/backlog-statements.ts'
import { LEASE_LOST } from './held-lease-statements.ts'

/** The statements of a transaction that settles several shards of one consumer. `schema` is quoted. */
export function sharedSettlement(schema: string) {
  const leases =
    'pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::bigint[])'
  const rows =
    'pg_catalog.unnest($6::smallint[]), pg_catalog.unnest($7::bigint[]), pg_catalog.unnest($8::timestamptz[])'
  const heldUnder = `join ${schema}.leases as l on l.name = given.name and l.owner = given.owner and l.term = given.term
  where l.expires_at > pg_catalog.clock_timestamp()`
  return {
    /**
     * Deletes accepted messages ($6 to $8) of several shards of a consumer ($4), as `settle` does for one shard. The leases ($1 to
     * $3) belong to the shards ($5) in the same places: a message is looked up, and locked, only if the lease of its own shard is held.
     */
    settleTogether: `
with held as materialized (
  select given.shard, true as found
  from rows from (${leases}, pg_catalog.unnest($5::smallint[])) as given (name, owner, term, shard)
  ${heldUnder}
), locked as materialized (
  select held.shard, found.*
  from held
  join rows from (${rows}) as wanted (shard, seq, stamp) on wanted.shard = held.shard
  cross join lateral (
    select o.seq, o.ctid as address from ${schema}.local_outbox as o
    where o.consumer = $4::text and o.shard = held.shard and o.shard = wanted.shard and o.seq = wanted.seq
      and ${stampIn('o')} = wanted.stamp and held.found
    limit 1
    for update of o skip locked
  ) as found
), settled as (
  delete from ${schema}.local_outbox as o
  where o.ctid = any (array(select l.address from locked as l))
  returning o.shard, o.seq
)
select held.shard::text as shard,
  (select pg_catalog.string_agg(s.seq::text, ',') from settled as s where s.shard = held.shard) as done,
  (
    select pg_catalog.string_agg(l.seq::text, ',') from locked as l
    where l.shard = held.shard and not exists (select from settled as s where s.shard = l.shard and s.seq = l.seq)
  ) as kept
from held`,

    /**
     * Locks the rows of all leases ($1 to $3) against other acquirers until the transaction ends, and fails unless every lease is
     * held. The last statement before COMMIT, as `hold` is for one lease. It never waits for a renewal, which changes no key, and
     * acquirers skip what is locked, so that two transactions cannot wait for each other.
     */
    holdTogether: `
with held as materialized (
  select 1
  from rows from (${leases}) as given (name, owner, term)
  ${heldUnder}
  for key share of l
)
select (case when (select pg_catalog.count(*) from held) = pg_catalog.cardinality($1::text[])
  then 'true' else '${LEASE_LOST}' end)::boolean::text as held`,
  } as const
}
