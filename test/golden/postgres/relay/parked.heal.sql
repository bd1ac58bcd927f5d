with recursive held as materialized (
  select 1 from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
  for key share
), heads (n, order_key, place, due_at) as (
  select 1, onward.order_key, onward.place, onward.due_at
  from (
    select f.order_key, f.place, f.due_at from "txbox".parked as f
    where f.order_key is not null and (f.shard, f.order_key) > ($4::smallint, $5::text) and f.shard <= $4::smallint
    order by f.shard, f.order_key, f.place
    limit 1
  ) as onward
  union all
  select heads.n + 1, onward.order_key, onward.place, onward.due_at
  from heads
  cross join lateral (
    select f.order_key, f.place, f.due_at from "txbox".parked as f
    where f.order_key is not null and (f.shard, f.order_key) > ($4::smallint, heads.order_key) and f.shard <= $4::smallint
    order by f.shard, f.order_key, f.place
    limit 1
  ) as onward
  where heads.n < $6
), healed as (
  update "txbox".parked as p
  set due_at = pg_catalog.clock_timestamp()
  where p.place = any (array(select heads.place from held cross join heads where heads.due_at is null))
    and p.due_at is null and p.dead_at is null
  returning p.place
)
select (select pg_catalog.count(*) from healed)::text as healed, (select pg_catalog.count(*) from heads)::text as keys,
  (select heads.order_key from heads order by heads.n desc limit 1) as last
from held
