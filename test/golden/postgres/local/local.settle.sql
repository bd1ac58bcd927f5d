with held as materialized (
  select true as found, expires_at from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
), locked as materialized (
  select found.* from held cross join rows from (pg_catalog.unnest($6::bigint[]), pg_catalog.unnest($7::timestamptz[])) as wanted (seq, stamp) cross join lateral (
      select o.seq, o.ctid as address from "txbox".local_outbox as o
      where o.consumer = $4::text and o.shard = $5::smallint and o.seq = wanted.seq and least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp and held.found
      limit 1
      for update of o skip locked
    ) as found
), settled as (
  delete from "txbox".local_outbox as o
  where o.ctid = any (array(select l.address from locked as l))
  returning o.seq
)
select (select pg_catalog.string_agg(s.seq::text, ',') from settled as s) as done,
  (select pg_catalog.string_agg(l.seq::text, ',') from locked as l where not exists (select from settled as s where s.seq = l.seq)) as kept
from held
