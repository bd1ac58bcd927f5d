select asked.shard::text as shard, (next.due_at = timestamptz 'epoch')::text as handled
from pg_catalog.unnest($2::smallint[]) as asked (shard)
cross join lateral (
  select q.topic, q.shard, q.due_at from "txbox".queue as q
  where q.due_at is not null and (q.topic, q.shard, q.due_at) >= ($1::text, asked.shard, timestamptz 'epoch')
  order by q.topic, q.shard, q.due_at
  limit 1
) as next
where next.topic = $1 and next.shard = asked.shard and next.due_at <= pg_catalog.statement_timestamp()
