select p.place::text as seq, p.attempts::text as attempts, p.errors,
  (p.order_key is not null)::text as ordered, p.id, p.topic, p.key, p.type, p.correlation_id, p.trace_context,
  nullif(p.content_type, 'application/json') as content_type, nullif(p.headers, '{}') as headers,
  (extract(epoch from least(greatest(p.created_at, '0001-01-01Z'::timestamptz), '9999-12-31Z'::timestamptz)) * 1000000::numeric)::bigint::text as stamp,
  case when pg_catalog.octet_length(p.payload) > $5 then pg_catalog.octet_length(p.payload)::text end as payload_bytes,
  case when pg_catalog.octet_length(p.payload) <= $5 then pg_catalog.encode(p.payload, 'escape') end as payload,
  case when p.suspect or p.due_at > pg_catalog.statement_timestamp() then 'true' end as later
from rows from (pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::bigint[]), pg_catalog.unnest($6::timestamptz[])) with ordinality as onward (order_key, place, stamp, n)
cross join lateral (
  select true from "txbox".parked as h
  where h.place = onward.place and least(greatest(h.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = onward.stamp
  limit 1
) as head
cross join lateral (
  -- From row to row: for a range of rows, the planner may sort the whole key if statistics are missing.
  with recursive places (n, place) as (
    (
      select 1, f.place from "txbox".parked as f
      where f.order_key is not null and f.shard = $1::smallint
      and (f.order_key, f.place) >= (onward.order_key, onward.place) and f.order_key <= onward.order_key
      order by f.shard, f.order_key, f.place
      limit 1
    )
    union all
    select places.n + 1, next.place
    from places
    cross join lateral (
      select f.place from "txbox".parked as f
      where f.order_key is not null and f.shard = $1::smallint
      and (f.order_key, f.place) > (onward.order_key, places.place) and f.order_key <= onward.order_key
      order by f.shard, f.order_key, f.place
      limit 1
    ) as next
    where places.n < $4
  )
  select f.* from places
  cross join lateral (
    select * from "txbox".parked as f
    where f.place = places.place
    limit 1
  ) as f
) as p
order by onward.n, p.place
