with held as materialized (
  select 1 from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
  for key share
), settled as (
  delete from "txbox".outbox
  where ctid = any (array(
    select found.ctid
    from held cross join rows from (pg_catalog.unnest($5::bigint[]), pg_catalog.unnest($6::timestamptz[])) as wanted (seq, stamp) cross join lateral (
      select o.ctid from "txbox".outbox as o
      where o.shard = $4 and o.seq = wanted.seq and least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp
      limit 1
    ) as found
  ))
  returning seq
)
select (select pg_catalog.count(*) from settled)::text as settled from held
