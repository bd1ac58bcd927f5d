select p.place::text as seq, p.attempts::text as attempts,
  (p.order_key is not null)::text as ordered, p.id, p.topic, p.key, p.type, p.correlation_id,
  nullif(p.content_type, 'application/json') as content_type, nullif(p.headers, '{}') as headers,
  floor(date_part('epoch', p.created_at) * 1000)::bigint::text as created_at,
  case when octet_length(p.payload) > $2 then octet_length(p.payload)::text end as payload_bytes,
  case when octet_length(p.payload) <= $2 then encode(p.payload, 'escape') end as payload, null as later
from "txbox".parked as p
where p.place = any ($1::bigint[])
