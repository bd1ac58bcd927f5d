select p.place::text as seq, p.attempts::text as attempts,
  (p.order_key is not null)::text as ordered, p.id, p.topic, p.key, p.type, p.correlation_id,
  nullif(p.content_type, 'application/json') as content_type, nullif(p.headers, '{}') as headers,
  floor(date_part('epoch', p.created_at) * 1000)::bigint::text as created_at,
  case when octet_length(p.payload) > $5 then octet_length(p.payload)::text end as payload_bytes,
  case when octet_length(p.payload) <= $5 then encode(p.payload, 'escape') end as payload,
  case when p.due_at > statement_timestamp() then 'true' end as later
from unnest($2::text[], $3::bigint[]) with ordinality as onward (order_key, place, n)
cross join lateral (
  select * from "txbox".parked as f
  where f.order_key is not null and (f.shard, f.order_key, f.place) >= ($1::smallint, onward.order_key, onward.place)
      and (f.shard, f.order_key) <= ($1::smallint, onward.order_key)
  order by f.shard, f.order_key, f.place
  limit $4
) as p
order by onward.n, p.place
