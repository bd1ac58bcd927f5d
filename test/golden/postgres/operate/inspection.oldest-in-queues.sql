select 'queue' as part, oldest.id, oldest.topic, pg_catalog.floor(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - oldest.since) * 1000::double precision)::bigint::text as age_ms
from (
  select m.id, m.topic, greatest(m.created_at, m.deliver_at, m.redriven_at) as since
  from "txbox".queue as m
  where m.dead_at is null and m.due_at is distinct from timestamptz 'epoch' and greatest(m.created_at, m.deliver_at, m.redriven_at) <= pg_catalog.statement_timestamp()
  order by greatest(m.created_at, m.deliver_at, m.redriven_at)
  limit 1
) as oldest
