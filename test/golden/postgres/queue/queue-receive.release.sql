update "txbox".queue as q
  set due_at = pg_catalog.clock_timestamp()
  where q.place = any (array(
    select next.place
    from rows from (pg_catalog.unnest($2::smallint[]), pg_catalog.unnest($3::text[])) as freed (shard, order_key)
    cross join lateral (
    select f.place, f.due_at from "txbox".queue as f
    where f.order_key is not null
      and f.topic = $1::text and f.shard = freed.shard
      and (f.order_key, f.place) > (freed.order_key, 0) and f.order_key <= freed.order_key and f.due_at is distinct from timestamptz 'epoch'
    order by f.topic, f.shard, f.order_key, f.place
    limit 1
  ) as next
    where next.due_at is null and (
    select true from "txbox".queue as g
    where g.receipt is not null and g.order_key is not null
      and g.topic = $1::text and g.shard = freed.shard and g.order_key >= freed.order_key and g.order_key <= freed.order_key
    order by g.topic, g.shard, g.order_key
    limit 1
  ) is null
  )) and q.due_at is null and q.dead_at is null
