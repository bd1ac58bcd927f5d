with recursive held as materialized (
  select true as found, expires_at from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
), heads (n, order_key, place, due_at) as (
  select 1, onward.order_key, onward.place, onward.due_at
  from (
    select f.order_key, f.place, f.due_at from "txbox".local_parked as f
    where f.consumer = $4::text and f.order_key is not null and (f.shard, f.order_key) > ($5::smallint, $6::text)
      and f.shard <= $5::smallint
    order by f.shard, f.order_key, f.place
    limit 1
  ) as onward
  union all
  select heads.n + 1, onward.order_key, onward.place, onward.due_at
  from heads
  cross join lateral (
    select f.order_key, f.place, f.due_at from "txbox".local_parked as f
    where f.consumer = $4::text and f.order_key is not null and (f.shard, f.order_key) > ($5::smallint, heads.order_key)
      and f.shard <= $5::smallint
    order by f.shard, f.order_key, f.place
    limit 1
  ) as onward
  where heads.n < $7
), idle as materialized (
  select h.place from heads as h where h.due_at is null
), locked as materialized (
  select found.place from held cross join idle as wanted cross join lateral (
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
select (select pg_catalog.count(*) from released)::text as healed, (select pg_catalog.count(*) from heads)::text as keys,
  (select h.order_key from heads as h order by h.n desc limit 1) as last
from held
