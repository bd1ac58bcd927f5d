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
), following as (
  update "txbox".local_parked as p set due_at = null where p.place = any (array(select l.place from locked as l)) returning p.place
)
select (select pg_catalog.string_agg(c.place::text, ',') from following as c) as done,
  (select pg_catalog.string_agg(l.place::text, ',') from locked as l where not exists (select from following as c where c.place = l.place)) as kept
from held
