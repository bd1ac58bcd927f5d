select p.place::text as seq, p.attempts::text as attempts, p.errors,
  (p.order_key is not null)::text as ordered, p.id, p.topic, p.key, p.type, p.correlation_id, p.trace_context,
  nullif(p.content_type, 'application/json') as content_type, nullif(p.headers, '{}') as headers,
  (extract(epoch from least(greatest(p.created_at, '0001-01-01Z'::timestamptz), '9999-12-31Z'::timestamptz)) * 1000000::numeric)::bigint::text as stamp,
  case when pg_catalog.octet_length(p.payload) > $2 then pg_catalog.octet_length(p.payload)::text end as payload_bytes,
  case when pg_catalog.octet_length(p.payload) <= $2 then pg_catalog.encode(p.payload, 'escape') end as payload, null as later
from "txbox".parked as p
where p.shard = $1 and p.suspect and p.due_at is not null and p.due_at <= pg_catalog.statement_timestamp() and p.dead_at is null
  and (p.order_key is null or p.place = (
    select f.place from "txbox".parked as f
    where f.order_key is not null and f.shard = $1::smallint
      and (f.order_key, f.place) > (p.order_key, 0) and f.order_key <= p.order_key
    order by f.shard, f.order_key, f.place
    limit 1
  ))
order by p.due_at
limit 1
