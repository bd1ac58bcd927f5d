select p.place::text as place, p.order_key, p.attempts::text as attempts, (extract(epoch from least(greatest(p.created_at, '0001-01-01Z'::timestamptz), '9999-12-31Z'::timestamptz)) * 1000000::numeric)::bigint::text as stamp,
  first.place::text as first
from "txbox".local_parked as p
left join lateral (
    select f.place from "txbox".local_parked as f
    where f.consumer = $3::text and f.order_key is not null and f.shard = $1::smallint
      and (f.order_key, f.place) > (p.order_key, 0) and f.order_key <= p.order_key
    order by f.shard, f.order_key, f.place
    limit 1
  ) as first on true
where p.consumer = $3::text and p.shard = $1 and p.due_at <= pg_catalog.statement_timestamp() and p.dead_at is null
  and (not p.suspect or first.place <> p.place)
order by p.due_at
limit $2
