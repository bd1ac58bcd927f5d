with held as materialized (
  select true as found, expires_at from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
), heads as materialized (
  select next.place
  from held
  cross join pg_catalog.unnest($6::text[]) as onward (order_key)
  cross join lateral (
    select f.place, f.due_at from "txbox".local_parked as f
    where f.consumer = $4::text and f.order_key is not null and f.shard = $5::smallint
      and (f.order_key, f.place) > (onward.order_key, 0) and f.order_key <= onward.order_key
    order by f.shard, f.order_key, f.place
    limit 1
  ) as next
  where next.due_at is null
), locked as materialized (
  select found.place from held cross join heads as wanted cross join lateral (
    select p.place from "txbox".local_parked as p
    where p.place = wanted.place and p.due_at is null and p.dead_at is null and held.found
    limit 1
    for update of p skip locked
  ) as found
), released as (
  update "txbox".local_parked as p
  set due_at = pg_catalog.clock_timestamp()
  where p.place = any (array(select l.place from locked as l))
  returning p.place
)
select pg_catalog.count(*)::text as released from released
