with held as materialized (
  select 1 from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
  for key share
), following as (
  update "txbox".parked as p
  set due_at = null
  where p.ctid = any (array(
    select found.ctid
    from held cross join rows from (pg_catalog.unnest($4::bigint[]), pg_catalog.unnest($5::timestamptz[])) as wanted (place, stamp) cross join lateral (
      select f.ctid from "txbox".parked as f
      where f.place = wanted.place and least(greatest(f.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp and f.dead_at is null
      limit 1
    ) as found
  )) and p.dead_at is null
)
select 'true' as held from held
