with d as materialized (
  delete from "txbox".parked as gone
  where gone.place = any (array(
    select p.place from "txbox".parked as p
    where p.dead_at is not null
  and ($1::text[] is null or p.id = any ($1::text[]))
  and ($2::text is null or p.topic = $2)
  and ($3::text is null or p.type = $3)
  and ($4::text is null or p.key = $4)
  and ($8::text is null or pg_catalog.strpos(p.error, $8) > 0)
  and ($5::text is null or (p.id, p.place) > ($5, $6::bigint))
order by p.id, p.place
limit $7
    for update
  )) and gone.dead_at is not null
  returning gone.place, gone.shard, gone.order_key, gone.created_at, gone.due_at, gone.dead_at, gone.deliver_at, gone.attempts, gone.id, gone.topic, gone.type, gone.key, gone.content_type, gone.correlation_id, gone.error
)
select d.place::text as place, d.id, d.topic, d.type, d.key, d.content_type, d.correlation_id, d.error,
  d.attempts::text as attempts, pg_catalog.floor(pg_catalog.date_part('epoch', d.created_at) * 1000::double precision)::text as created_at,
  pg_catalog.floor(pg_catalog.date_part('epoch', d.dead_at) * 1000::double precision)::text as dead_at, pg_catalog.floor(pg_catalog.date_part('epoch', r.redriven_at) * 1000::double precision)::text as redriven_at, r.redriven_by
from d
left join lateral (
  select r.redriven_at, r.redriven_by from "txbox".redrives as r
  where r.id = d.id and r.consumer is null
  order by r.redriven_at desc
  limit 1
) as r on true
order by d.id, d.place
