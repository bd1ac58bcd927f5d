select
  (select count(*) from (select from "txbox".outbox limit $1) as counted)::text as backlog,
  (
    select floor(extract(epoch from clock_timestamp() - min(first.created_at)) * 1000)::bigint::text
    from generate_series(0, 15) as shards (shard)
    cross join lateral (
      select o.created_at from "txbox".outbox as o where o.shard = shards.shard order by o.seq limit 1
    ) as first
  ) as oldest_ms,
  (select count(*) from (select from "txbox".parked where dead_at is null and deliver_at is null limit $1) as counted)::text as parked,
  (select count(*) from (select from "txbox".parked where dead_at is null and deliver_at is not null limit $1) as counted)::text as scheduled,
  (select count(*) from (select from "txbox".parked where dead_at is not null limit $1) as counted)::text as dead,
  (select count(*) from (select from "txbox".inbox where expires_at <= statement_timestamp() limit $1) as counted)::text as expired,
  (
    select greatest(c.reltuples::bigint, pg_stat_get_live_tuples(c.oid), 0)::text
    from pg_class as c where c.oid = '"txbox".inbox'::regclass
  ) as claims,
  pg_total_relation_size('"txbox".inbox')::text as inbox_bytes
