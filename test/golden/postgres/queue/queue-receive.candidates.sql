select asked.shard::text as shard, q.place::text as place, q.order_key, q.attempts::text as attempts,
  (q.timeouts + case when q.receipt is null then 0 else 1 end)::text as timeouts, first.place::text as first, flight.place::text as flight,
  (flight.due_at > pg_catalog.clock_timestamp())::text as live, q.bytes::text as bytes
from pg_catalog.unnest($2::smallint[]) as asked (shard)
cross join lateral (
  select q.place, q.order_key, q.attempts, q.timeouts, q.receipt, q.due_at, pg_catalog.octet_length(q.payload) as bytes
  from "txbox".queue as q
  where q.due_at is not null and q.topic = $1::text and q.shard = asked.shard
    and q.due_at > timestamptz 'epoch' and q.due_at <= pg_catalog.statement_timestamp()
  order by q.due_at, q.place
  limit $3
  for update skip locked
) as q
left join lateral (
    select f.place from "txbox".queue as f
    where f.order_key is not null
      and f.topic = $1::text and f.shard = asked.shard
      and (f.order_key, f.place) > (q.order_key, 0) and f.order_key <= q.order_key and f.due_at is distinct from timestamptz 'epoch'
    order by f.topic, f.shard, f.order_key, f.place
    limit 1
  ) as first on true
left join lateral (
    select g.place, g.due_at from "txbox".queue as g
    where g.receipt is not null and g.order_key is not null
      and g.topic = $1::text and g.shard = asked.shard and g.order_key >= q.order_key and g.order_key <= q.order_key
    order by g.topic, g.shard, g.order_key
    limit 1
  ) as flight on true
