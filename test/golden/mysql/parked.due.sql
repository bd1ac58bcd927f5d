select cast(p.place as char) as place, p.order_key as order_key, cast(p.attempts as char) as attempts,
  (
    select cast(f.place as char) from `txbox_parked` as f force index (parked_order)
    where f.shard = ? and f.order_key = p.order_key
    order by f.shard, f.order_key, f.place
    limit 1
  ) as first
from `txbox_parked` as p force index (parked_due)
where p.shard = ? and p.due_at <= utc_timestamp(6)
order by p.due_at
limit ?
