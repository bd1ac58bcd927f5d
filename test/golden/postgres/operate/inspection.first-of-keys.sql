with recursive keys as (
  (
    select q.topic, q.shard, q.order_key, q.id, q.due_at is null as waits, 1 as n
    from "txbox".queue as q
    where q.order_key is not null
    order by q.topic, q.shard, q.order_key, q.place
    limit 1
  )
  union all
  select next.topic, next.shard, next.order_key, next.id, next.waits, keys.n + 1
  from keys
  cross join lateral (
    select q.topic, q.shard, q.order_key, q.id, q.due_at is null as waits
    from "txbox".queue as q
    where q.order_key is not null and (q.topic, q.shard, q.order_key) > (keys.topic, keys.shard, keys.order_key)
    order by q.topic, q.shard, q.order_key, q.place
    limit 1
  ) as next
  where keys.n < $1::integer
)
select pg_catalog.count(*) over ()::text as examined, keys.topic, keys.shard::text as shard, keys.order_key, keys.id,
  keys.waits::text as waits
from keys
order by keys.waits desc, keys.n
limit $2
