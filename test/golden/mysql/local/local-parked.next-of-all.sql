(select cast(p.place as char) as place, cast(p.due_at is null as char) as waits
from `txbox_local_parked` as p force index (local_parked_order)
where p.consumer = ? and p.shard = ? and p.order_key = ?
order by p.consumer, p.shard, p.order_key, p.place
limit 1)
union all
(select cast(p.place as char) as place, cast(p.due_at is null as char) as waits
from `txbox_local_parked` as p force index (local_parked_order)
where p.consumer = ? and p.shard = ? and p.order_key = ?
order by p.consumer, p.shard, p.order_key, p.place
limit 1)
