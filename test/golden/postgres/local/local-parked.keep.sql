with held as materialized (
  select true as found, expires_at from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
), verdicts as materialized (
  select * from rows from (pg_catalog.unnest($6::bigint[]), pg_catalog.unnest($7::timestamptz[]), pg_catalog.unnest($8::integer[]), pg_catalog.unnest($9::double precision[]), pg_catalog.unnest($10::boolean[]), pg_catalog.unnest($11::text[]), pg_catalog.unnest($12::text[]), pg_catalog.unnest($13::boolean[]), pg_catalog.unnest($14::boolean[]))
    as wanted (place, stamp, attempts, retry_ms, dead, error, errors, suspect, unhandled)
), locked as materialized (
  select found.* from held cross join verdicts as wanted cross join lateral (
    select p.place from "txbox".local_parked as p
    where p.place = wanted.place and case when p.consumer = $4::text and p.shard = $5::smallint then true end and least(greatest(p.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp
      and p.dead_at is null and held.found
    limit 1
    for update of p skip locked
  ) as found
), kept as (
  update "txbox".local_parked as p
  set attempts = v.attempts,
    error = v.error,
    errors = coalesce(v.errors, p.errors),
    suspect = v.suspect,
    unhandled = v.unhandled,
    due_at = pg_catalog.clock_timestamp() + v.retry_ms * interval '1 millisecond',
    dead_at = case when v.dead then pg_catalog.clock_timestamp() end,
    order_key = case when not v.dead then p.order_key end
  from verdicts as v
  where p.place = any (array(select l.place from locked as l)) and p.place = v.place
  returning p.place
)
select (select pg_catalog.string_agg(c.place::text, ',') from kept as c) as done,
  (select pg_catalog.string_agg(l.place::text, ',') from locked as l where not exists (select from kept as c where c.place = l.place)) as kept
from held
