select cast(count(*) over () as char) as examined, hex(k.topic) as topic, cast(k.shard as char) as shard,
  hex(k.order_key) as order_key, hex(q.id) as id, cast(q.due_at is null as char) as waits
from (
  select topic, shard, order_key, min(place) as place
  from `txbox_queue` force index (queue_order)
  group by topic, shard, order_key
  limit ?
) as k
straight_join `txbox_queue` as q force index (primary) on q.place = k.place
where k.order_key is not null
order by q.due_at is null desc, k.place
limit ?
