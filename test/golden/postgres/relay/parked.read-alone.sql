select p.place::text as seq, p.attempts::text as attempts, p.errors,
  (p.order_key is not null)::text as ordered, p.id, p.topic, p.key, p.type, p.correlation_id, p.trace_context,
  nullif(p.content_type, 'application/json') as content_type, nullif(p.headers, '{}') as headers,
  (extract(epoch from least(greatest(p.created_at, '0001-01-01Z'::timestamptz), '9999-12-31Z'::timestamptz)) * 1000000::numeric)::bigint::text as stamp,
  case when pg_catalog.octet_length(p.payload) > $3 then pg_catalog.octet_length(p.payload)::text end as payload_bytes,
  case when pg_catalog.octet_length(p.payload) <= $3 then pg_catalog.encode(p.payload, 'escape') end as payload, null as later
from "txbox".parked as p
where p.place = any ($1::bigint[])
  and (p.place, least(greatest(p.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz)) in (select pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2::timestamptz[]))
  and p.dead_at is null
