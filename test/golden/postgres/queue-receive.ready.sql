select asked.shard::text as shard
from pg_catalog.unnest($2::smallint[]) as asked (shard)
cross join lateral (
  select true from "txbox".queue as q
  where q.due_at is not null
    and (q.topic, q.shard, q.due_at) >= ($1::text, asked.shard, timestamptz 'epoch')
    and (q.topic, q.shard, q.due_at) <= ($1::text, asked.shard, pg_catalog.statement_timestamp())
  order by q.topic, q.shard, q.due_at
  limit 1
) as found
