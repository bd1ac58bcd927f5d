select
  (select cast(count(*) as char) from (select 1 from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) limit ?) as counted) as due,
  (select cast(count(*) as char) from (select 1 from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.due_at is null and q.order_key is not null limit ?) as counted) as waiting,
  (select cast(count(*) as char) from (select 1 from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.due_at > utc_timestamp(6) and q.receipt is null limit ?) as counted) as later,
  (select cast(count(*) as char) from (select 1 from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.due_at > utc_timestamp(6) and q.receipt is not null limit ?) as counted) as in_flight,
  (select cast(count(*) as char) from (select 1 from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.dead_at is not null limit ?) as counted) as dead,
  (
    select cast(timestampdiff(microsecond, min(due_at), utc_timestamp(6)) div 1000 as char)
    from ((select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 0 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 1 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 2 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 3 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 4 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 5 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 6 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 7 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 8 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 9 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 10 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 11 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 12 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 13 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 14 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)
      union all (select q.due_at from `txbox_queue` as q force index (queue_due) where q.topic = ? and q.shard = 15 and q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) order by q.due_at limit 1)) as first
  ) as oldest_ms
