select
  (select pg_catalog.count(*) from (select from "txbox".outbox limit $1) as counted)::text as backlog,
  (
    select pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - pg_catalog.min(first.created_at)) * 1000::double precision)::bigint::text
    from pg_catalog.generate_series(0, 15) as shards (shard)
    cross join lateral (
      select o.created_at from "txbox".outbox as o where o.shard = shards.shard order by o.seq limit 1
    ) as first
  ) as oldest_ms,
  due.refused::text as refused,
  due.behind::text as behind,
  due.examined::text as examined,
  (
    select pg_catalog.count(*) from (
      select from "txbox".parked as m where m.dead_at is null and greatest(m.created_at, m.deliver_at, m.redriven_at) > pg_catalog.statement_timestamp() order by greatest(m.created_at, m.deliver_at, m.redriven_at) limit $1
    ) as counted
  )::text as later,
  (select pg_catalog.count(*) from (select from "txbox".parked where dead_at is not null limit $1) as counted)::text as dead,
  (select pg_catalog.count(*) from (select from "txbox".inbox where expires_at <= pg_catalog.statement_timestamp() limit $1) as counted)::text as expired,
  (
    select greatest(c.reltuples::bigint, pg_catalog.pg_stat_get_live_tuples(c.oid), 0)::text
    from pg_catalog.pg_class as c where c.oid = '"txbox".inbox'::regclass::oid
  ) as claims,
  (select pg_catalog.count(*) from (select from "txbox".inbox limit 10000) as counted)::text as counted_claims,
  pg_catalog.pg_total_relation_size('"txbox".inbox')::text as inbox_bytes
from (
  select pg_catalog.count(*) as examined,
    pg_catalog.count(*) filter (where m.due_at is null) as behind,
    pg_catalog.count(*) filter (where m.due_at is not null and (m.deliver_at is null or m.attempts > 0)) as refused
  from (
    select m.due_at, m.deliver_at, m.attempts
    from "txbox".parked as m where m.dead_at is null and greatest(m.created_at, m.deliver_at, m.redriven_at) <= pg_catalog.statement_timestamp()
    order by greatest(m.created_at, m.deliver_at, m.redriven_at)
    limit $1
  ) as m
) as due
