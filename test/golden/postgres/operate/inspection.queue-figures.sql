select
  (select pg_catalog.count(*) from (select from "txbox".queue as q where q.topic = $2::text and q.due_at > timestamptz 'epoch' and q.due_at <= pg_catalog.statement_timestamp() limit $1) as counted)::text as due,
  (select pg_catalog.count(*) from (select from "txbox".queue as q where q.topic = $2::text and q.due_at is null and q.order_key is not null limit $1) as counted)::text as waiting,
  (select pg_catalog.count(*) from (select from "txbox".queue as q where q.topic = $2::text and q.due_at > pg_catalog.statement_timestamp() and q.receipt is null limit $1) as counted)::text as later,
  (select pg_catalog.count(*) from (select from "txbox".queue as q where q.topic = $2::text and q.due_at > pg_catalog.statement_timestamp() and q.receipt is not null limit $1) as counted)::text as in_flight,
  (select pg_catalog.count(*) from (select from "txbox".queue as q where q.topic = $2::text and q.dead_at is not null limit $1) as counted)::text as dead,
  (
    select pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.statement_timestamp() - pg_catalog.min(first.due_at)) * 1000::double precision)::bigint::text
    from pg_catalog.generate_series(0, 16) as shards (shard)
    cross join lateral (
      select q.due_at from "txbox".queue as q
      where q.due_at is not null and q.topic = $2::text and q.shard = shards.shard::smallint and q.due_at > timestamptz 'epoch'
      order by q.due_at, q.place
      limit 1
    ) as first
    where first.due_at <= pg_catalog.statement_timestamp()
  ) as oldest_ms
