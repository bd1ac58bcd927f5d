select cast(p.place as char) as place, p.order_key as order_key, cast(p.attempts as char) as attempts,
  cast(timestampdiff(microsecond, '1970-01-01', p.created_at) as char) as stamp,
  cast((
    select f.place from `txbox_local_parked` as f force index (local_parked_order)
    where f.consumer = ? and f.shard = ? and f.order_key = p.order_key
    order by f.consumer, f.shard, f.order_key, f.place
    limit 1
  ) as char) as first
from `txbox_local_parked` as p force index (local_parked_due)
where p.consumer = ? and p.shard = ? and p.due_at <= utc_timestamp(6) and p.dead_at is null
  and (not p.suspect or (
    select f.place from `txbox_local_parked` as f force index (local_parked_order)
    where f.consumer = ? and f.shard = ? and f.order_key = p.order_key
    order by f.consumer, f.shard, f.order_key, f.place
    limit 1
  ) <> p.place)
order by p.due_at
limit ?
