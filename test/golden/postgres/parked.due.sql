select p.place::text as place, p.order_key, p.attempts::text as attempts,
  (
    select f.place::text from "txbox".parked as f
    where f.order_key is not null and (f.shard, f.order_key, f.place) > ($1::smallint, p.order_key, 0)
      and (f.shard, f.order_key) <= ($1::smallint, p.order_key)
    order by f.shard, f.order_key, f.place
    limit 1
  ) as first
from "txbox".parked as p
where p.shard = $1 and p.due_at <= statement_timestamp()
order by p.due_at
limit $2
