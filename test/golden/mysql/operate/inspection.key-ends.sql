select cast((select count(*) from (select 1 from `txbox_queue` as q force index (queue_order) where q.topic = ? and q.shard = ? and q.order_key = ? limit 1000) as counted) as char) as waiting,
  cast(exists (
    select 1 from (select q.due_at from `txbox_queue` as q force index (queue_order) where q.topic = ? and q.shard = ? and q.order_key = ? order by q.topic, q.shard, q.order_key, q.place limit 1000) as first
    where first.due_at is not null
  ) or exists (
    select 1 from (
      select q.due_at from `txbox_queue` as q force index (queue_order) where q.topic = ? and q.shard = ? and q.order_key = ? order by q.topic desc, q.shard desc, q.order_key desc, q.place desc limit 1000
    ) as last
    where last.due_at is not null
  ) as char) as goes_on
