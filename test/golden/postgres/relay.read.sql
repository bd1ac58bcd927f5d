select o.seq::text as seq, o.ctid::text as address, o.id, o.topic, o.key, o.type, o.correlation_id,
  nullif(o.content_type, 'application/json') as content_type, nullif(o.headers, '{}') as headers,
  floor(date_part('epoch', o.created_at) * 1000)::bigint::text as created_at,
  case when octet_length(o.payload) > $3 then octet_length(o.payload)::text end as payload_bytes,
  case when octet_length(o.payload) <= $3 then encode(o.payload, 'escape') end as payload,
  case
    when (
      select true from "txbox".parked as b
      where b.order_key is not null and (b.shard, b.order_key) >= ($1::smallint, '') and b.shard <= $1
      order by b.shard, b.order_key, b.place
      limit 1
    )
    then (
      select 'true' from "txbox".parked as p
      where p.order_key is not null and (p.shard, p.order_key, p.place) > ($1::smallint, o.key, 0)
        and (p.shard, p.order_key) <= ($1::smallint, o.key)
      order by p.shard, p.order_key, p.place
      limit 1
    )
  end as blocked
from "txbox".outbox as o
where (o.shard, o.seq) >= ($1::smallint, $4::bigint) and (o.shard, o.seq) < ($1::smallint + 1, 0)
order by o.shard, o.seq
limit $2
