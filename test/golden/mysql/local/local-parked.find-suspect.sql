select cast(p.place as char) as place, cast(timestampdiff(microsecond, '1970-01-01', p.created_at) as char) as stamp
from `txbox_local_parked` as p force index (local_parked_suspect)
where p.consumer = ? and p.shard = ? and p.suspect = 1 and p.due_at <= utc_timestamp(6) and p.dead_at is null
  and (p.order_key is null or p.place = (
    select f.place from `txbox_local_parked` as f force index (local_parked_order)
    where f.consumer = ? and f.shard = ? and f.order_key = p.order_key
    order by f.consumer, f.shard, f.order_key, f.place
    limit 1
  ))
order by p.due_at
limit 1
