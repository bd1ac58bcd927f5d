with held as materialized (
  select true as found, expires_at from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
)
select found.seq::text as seq
from held cross join rows from (pg_catalog.unnest($6::bigint[]), pg_catalog.unnest($7::timestamptz[])) as wanted (seq, stamp) cross join lateral (
      select o.seq from "txbox".local_outbox as o
      where o.consumer = $4::text and o.shard = $5::smallint and o.seq = wanted.seq and least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp and held.found
      limit 1
      for update of o skip locked
    ) as found
where case when found.seq is not null then held.expires_at > pg_catalog.clock_timestamp() end
