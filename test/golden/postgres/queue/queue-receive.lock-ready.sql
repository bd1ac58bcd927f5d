with locked as materialized (
  select asked.shard, next.due_at = timestamptz 'epoch' as handled
  from rows from (pg_catalog.unnest($2::smallint[]), pg_catalog.unnest($3::text[])) with ordinality as asked (shard, name, n)
  cross join lateral (
  select q.due_at from "txbox".queue as q
  where q.due_at is not null and q.topic = $1::text and q.shard = asked.shard and q.due_at >= timestamptz 'epoch'
  order by q.due_at, q.place
  limit 1
) as next
  join "txbox".leases as l on l.name = asked.name
  where next.due_at <= pg_catalog.statement_timestamp()
  order by asked.n
  limit $4
  for update of l skip locked
)
select known.locks::text as locks, locked.shard::text as shard, locked.handled::text as handled
from (
  select pg_catalog.count(*), case when $5::boolean then pg_catalog.set_config('synchronous_commit', 'off', true) end
  from "txbox".leases
  where name = any ($3::text[])
) as known (locks, mode)
left join locked on true
