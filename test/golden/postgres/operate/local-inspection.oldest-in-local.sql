select 'local' as part, oldest.id, oldest.topic,
  pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - oldest.since) * 1000::double precision)::bigint::text as age_ms
from (
  (
    select first.id, first.topic, first.created_at as since
    from pg_catalog.generate_series(0, 15) as shards (shard)
    cross join lateral (
      select o.id, o.topic, o.created_at from "txbox".local_outbox as o
      where o.consumer = $1 and o.shard = shards.shard
      order by o.seq
      limit 1
    ) as first
    order by first.created_at
    limit 1
  )
  union all
  (
    select m.id, m.topic, greatest(m.created_at, m.deliver_at, m.redriven_at)
    from "txbox".local_parked as m
    where m.dead_at is null and m.consumer = $1 and greatest(m.created_at, m.deliver_at, m.redriven_at) <= pg_catalog.statement_timestamp()
    order by greatest(m.created_at, m.deliver_at, m.redriven_at)
    limit 1
  )
) as oldest
order by oldest.since
limit 1
