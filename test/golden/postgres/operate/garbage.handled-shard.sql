select asked.shard::text as shard
from pg_catalog.unnest($2::smallint[]) as asked (shard)
cross join lateral (
  select q.due_at from "txbox".queue as q
  where q.due_at is not null and q.topic = $1::text and q.shard = asked.shard and q.due_at >= timestamptz 'epoch'
  order by q.due_at, q.place
  limit 1
) as next
where next.due_at = timestamptz 'epoch'
order by asked.shard
limit 1
