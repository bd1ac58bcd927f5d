with held as materialized (
  select true as found, expires_at from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
), locked as materialized (
  select found.* from held cross join rows from (pg_catalog.unnest($6::bigint[]), pg_catalog.unnest($7::timestamptz[])) as wanted (place, stamp) cross join lateral (
    select p.place from "txbox".local_parked as p
    where p.place = wanted.place and case when p.consumer = $4::text and p.shard = $5::smallint then true end and least(greatest(p.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp
      and p.dead_at is null and held.found
    limit 1
    for update of p skip locked
  ) as found
)
select from locked as l cross join held where case when l.place is not null then held.expires_at > pg_catalog.clock_timestamp() end
