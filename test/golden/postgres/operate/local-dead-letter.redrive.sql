with chosen as materialized (
  select p.place, p.shard, p.order_key, p.created_at, p.due_at, p.dead_at, p.deliver_at, p.attempts, p.id, p.topic, p.type, p.key, p.content_type, p.correlation_id, p.error, p.consumer from "txbox".local_parked as p
  where p.dead_at is not null
  and ($1::text[] is null or p.id = any ($1::text[]))
  and ($2::text is null or p.topic = $2)
  and ($3::text is null or p.type = $3)
  and ($4::text is null or p.key = $4)
  and ($8::text is null or pg_catalog.strpos(p.error, $8) > 0)
  and ($9::text is null or p.consumer = $9)
  and ($5::text is null or (p.id, p.place) > ($5, $6::bigint))
order by p.id, p.place
limit $7
  for update
), ranked as materialized (
  select c.place, case when c.deliver_at is null then c.key end as order_key,
    pg_catalog.row_number() over (partition by c.consumer, c.shard, c.key, c.deliver_at is null order by c.place) as n
  from chosen as c
), redriven as (
  update "txbox".local_parked as p
  set dead_at = null, redriven_at = pg_catalog.clock_timestamp(), attempts = 0, order_key = ranked.order_key,
    due_at = case when ranked.order_key is null or ranked.n = 1 then pg_catalog.clock_timestamp() end
  from ranked
  where p.place = ranked.place and p.dead_at is not null
  returning p.place
), recorded as (
  insert into "txbox".redrives (place, dead_at, attempts, id, topic, key, error, redriven_by, consumer)
  select c.place, c.dead_at, c.attempts, c.id, coalesce(c.topic, ''), c.key, c.error, $10, c.consumer
  from chosen as c join redriven using (place)
)
select d.place::text as place, d.id, d.topic, d.consumer, d.type, d.key, d.content_type, d.correlation_id, d.error,
  d.attempts::text as attempts, pg_catalog.floor(pg_catalog.date_part('epoch', d.created_at) * 1000::double precision)::text as created_at,
  pg_catalog.floor(pg_catalog.date_part('epoch', d.dead_at) * 1000::double precision)::text as dead_at, pg_catalog.floor(pg_catalog.date_part('epoch', r.redriven_at) * 1000::double precision)::text as redriven_at, r.redriven_by
from chosen as d join redriven using (place)
left join lateral (
  select r.redriven_at, r.redriven_by from "txbox".redrives as r
  where r.id = d.id and r.consumer = d.consumer
  order by r.redriven_at desc
  limit 1
) as r on true
order by d.id, d.place
