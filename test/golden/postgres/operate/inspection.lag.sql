select
  (select pg_catalog.count(*) from (select from "txbox".outbox limit $1) as counted)::text as backlog,
  (
    select pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - pg_catalog.min(first.created_at)) * 1000::double precision)::bigint::text
    from pg_catalog.generate_series(0, 15) as shards (shard)
    cross join lateral (
      select o.created_at from "txbox".outbox as o where o.shard = shards.shard order by o.seq limit 1
    ) as first
  ) as oldest_ms,
  (select pg_catalog.count(*) from (select from "txbox".parked as m where m.dead_at is null and greatest(m.created_at, m.deliver_at, m.redriven_at) <= pg_catalog.statement_timestamp() limit $1) as counted)::text as parked
