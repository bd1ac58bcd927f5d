with chosen as materialized (
  select p.place, p.shard, p.order_key, p.created_at, p.due_at, p.dead_at, p.deliver_at, p.attempts, p.id, p.topic, p.type, p.key, p.content_type, p.correlation_id, p.error, p.consumer from "txbox".local_parked as p
  where p.dead_at is null and (p.deliver_at is null or p.attempts > 0) and p.due_at > pg_catalog.statement_timestamp()
  and ($1::text[] is null or p.id = any ($1::text[]))
  and ($2::text is null or p.topic = $2)
  and ($3::text is null or p.type = $3)
  and ($4::text is null or p.key = $4)
  and ($8::text is null or pg_catalog.strpos(p.error, $8) > 0)
  and ($9::text is null or p.consumer = $9)
  and ($5::text is null or p.place > $6::bigint)
order by p.place
limit $7
  for update skip locked
), retried as (
  update "txbox".local_parked as p
  set due_at = pg_catalog.clock_timestamp()
  from chosen
  where p.place = chosen.place and p.dead_at is null
  returning p.place
)
select d.place::text as place, d.id, d.topic, d.consumer, d.type, d.key, d.content_type, d.correlation_id, d.error,
  d.attempts::text as attempts, pg_catalog.floor(pg_catalog.date_part('epoch', d.created_at) * 1000::double precision)::text as created_at, pg_catalog.floor(pg_catalog.date_part('epoch', d.due_at) * 1000::double precision)::text as due_at
from chosen as d join retried using (place)
order by d.place
