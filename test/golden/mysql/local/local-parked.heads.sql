select k.order_key as order_key, cast(k.place as char) as place, cast(p.due_at is null as char) as waits
from (
  select f.order_key as order_key, min(f.place) as place
  from `txbox_local_parked` as f force index (local_parked_order)
  where f.consumer = ? and f.shard = ? and f.order_key > ?
  group by f.consumer, f.shard, f.order_key
  order by f.consumer, f.shard, f.order_key
  limit ?
) as k
straight_join `txbox_local_parked` as p force index (primary) on p.place = k.place
order by k.order_key
