with held as materialized (
  select 1 from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
  for key share
), verdicts as materialized (
  select * from rows from (pg_catalog.unnest($6::bigint[]), pg_catalog.unnest($7::timestamptz[]), pg_catalog.unnest($8::integer[]), pg_catalog.unnest($9::double precision[]), pg_catalog.unnest($10::boolean[]), pg_catalog.unnest($11::text[]), pg_catalog.unnest($12::text[]), pg_catalog.unnest($13::boolean[]))
    as wanted (place, stamp, attempts, retry_ms, dead, error, errors, suspect)
), settled as (
  delete from "txbox".parked as p
  where p.ctid = any (array(
    select found.ctid
    from held cross join rows from (pg_catalog.unnest($4::bigint[]), pg_catalog.unnest($5::timestamptz[])) as wanted (place, stamp) cross join lateral (
      select f.ctid from "txbox".parked as f
      where f.place = wanted.place and least(greatest(f.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp and f.dead_at is null
      limit 1
    ) as found
  )) and p.dead_at is null
  returning p.place
), kept as (
  update "txbox".parked as p
  set attempts = v.attempts,
    error = v.error,
    errors = coalesce(v.errors, p.errors),
    suspect = v.suspect,
    due_at = pg_catalog.clock_timestamp() + v.retry_ms * interval '1 millisecond',
    dead_at = case when v.dead then pg_catalog.clock_timestamp() end,
    order_key = case when not v.dead then p.order_key end
  from verdicts as v
  where p.ctid = any (array(
    select found.ctid
    from held cross join verdicts as wanted cross join lateral (
      select f.ctid from "txbox".parked as f
      where f.place = wanted.place and least(greatest(f.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp and f.dead_at is null
      limit 1
    ) as found
  )) and p.place = v.place and p.dead_at is null
  returning p.place, p.order_key
), released as (
  update "txbox".parked
  set due_at = pg_catalog.clock_timestamp()
  where place = any (array(
    select next.place
    from held
    cross join pg_catalog.unnest($14::text[]) as onward (order_key)
    cross join lateral (
      select f.place, f.due_at from "txbox".parked as f
      where f.order_key is not null and f.shard = $15::smallint
      and (f.order_key, f.place) > (onward.order_key, 0) and f.order_key <= onward.order_key
        -- All of this statement sees the table as it was before.
        and not exists (select from settled as s where s.place = f.place)
        and not exists (select from kept as k where k.place = f.place and k.order_key is null)
      order by f.shard, f.order_key, f.place
      limit 1
    ) as next
    where next.due_at is null and not exists (select from kept as k where k.place = next.place)
  ))
)
select (select pg_catalog.string_agg(s.place::text, ',') from settled as s) as settled,
  (select pg_catalog.string_agg(k.place::text, ',') from kept as k) as kept
from held
