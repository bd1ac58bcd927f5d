select pg_catalog.count(*)::text as blocked, coalesce(pg_catalog.sum(held.messages), 0)::text as messages
from (
  select pg_catalog.count(*) as messages
  from (select shard, order_key from "txbox".parked where order_key is not null limit $1) as held_up
  group by shard, order_key
) as held
