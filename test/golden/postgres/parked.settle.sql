with held as materialized (
  select 1 from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > clock_timestamp()
  for key share
), settled as (
  delete from "txbox".parked as p
  where p.ctid = any (array(
    select found.ctid
    from held cross join unnest($4::bigint[]) as wanted (place)
    cross join lateral (select f.ctid from "txbox".parked as f where f.place = wanted.place limit 1) as found
  )) and p.dead_at is null
), kept as (
  update "txbox".parked as p
  set attempts = v.attempts,
    error = v.error,
    due_at = clock_timestamp() + v.retry_ms * interval '1 millisecond',
    dead_at = case when v.dead then clock_timestamp() end,
    order_key = case when not v.dead then p.order_key end
  from unnest($5::bigint[], $6::integer[], $7::double precision[], $8::boolean[], $9::text[])
    as v (place, attempts, retry_ms, dead, error)
  where p.ctid = any (array(
    select found.ctid
    from held cross join unnest($5::bigint[]) as wanted (place)
    cross join lateral (select f.ctid from "txbox".parked as f where f.place = wanted.place limit 1) as found
  )) and p.place = v.place and p.dead_at is null
), released as (
  update "txbox".parked
  set due_at = clock_timestamp()
  where place = any (array(
    select next.place
    from held
    cross join unnest($10::text[], $11::bigint[]) as through (order_key, place)
    cross join lateral (
      select f.place, f.due_at from "txbox".parked as f
      where f.order_key is not null and (f.shard, f.order_key, f.place) > ($12::smallint, through.order_key, through.place)
      and (f.shard, f.order_key) <= ($12::smallint, through.order_key)
      order by f.shard, f.order_key, f.place
      limit 1
    ) as next
    where next.due_at is null
  ))
)
select true as held from held
