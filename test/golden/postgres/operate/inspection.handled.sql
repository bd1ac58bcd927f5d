select pg_catalog.count(*)::text as handled
from pg_catalog.generate_series(0, 15) as shards (shard)
cross join lateral (
  select from "txbox".queue as q
  where q.due_at is not null and q.topic = $1 and q.shard = shards.shard::smallint and q.due_at = timestamptz 'epoch'
  limit $2
) as counted
