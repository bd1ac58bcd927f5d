with chosen as materialized (
  select p.place, p.shard, p.order_key, p.created_at, p.due_at, p.dead_at, p.deliver_at, p.attempts, p.id, p.topic, p.type, p.key, p.content_type, p.correlation_id, p.error from "txbox".queue as p
  where p.dead_at is null and (p.deliver_at is null or p.attempts > 0) and p.due_at is distinct from timestamptz 'epoch' and (p.receipt is null or p.due_at <= pg_catalog.clock_timestamp())
  and ($1::text[] is null or p.id = any ($1::text[]))
  and p.topic = $2
  and ($3::text is null or p.type = $3)
  and ($4::text is null or p.key = $4)
  and ($8::text is null or pg_catalog.strpos(p.error, $8) > 0)
  and ($5::text is null or p.place > $6::bigint)
order by p.place
limit $7
  for update skip locked
), handled as (
  update "txbox".queue as p
  set due_at = timestamptz 'epoch', receipt = null
  from chosen
  where p.place = chosen.place and p.order_key is not null and p.dead_at is null
  returning p.place
), gone as (
  delete from "txbox".queue as p
  using chosen
  where p.place = chosen.place and p.order_key is null and p.dead_at is null
  returning p.place
)
select d.place::text as place, d.id, d.topic, d.type, d.key, d.content_type, d.correlation_id, d.error,
  d.attempts::text as attempts, pg_catalog.floor(pg_catalog.date_part('epoch', d.created_at) * 1000::double precision)::text as created_at, pg_catalog.floor(pg_catalog.date_part('epoch', d.due_at) * 1000::double precision)::text as due_at
from chosen as d
where d.place in (select handled.place from handled) or d.place in (select gone.place from gone)
order by d.place
