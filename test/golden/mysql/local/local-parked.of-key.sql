select cast(p.place as char) as place, cast(timestampdiff(microsecond, '1970-01-01', p.created_at) as char) as stamp
from `txbox_local_parked` as p force index (local_parked_order)
where p.consumer = ? and p.shard = ? and p.order_key = ?
order by p.consumer, p.shard, p.order_key, p.place
limit ?
