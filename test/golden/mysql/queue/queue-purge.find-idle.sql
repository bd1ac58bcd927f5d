select cast(q.place as char) as place, cast(q.shard as char) as shard
from `txbox_queue` as q force index (queue_due)
where q.topic = ? and q.dead_at is null and (q.receipt is null or q.due_at <= utc_timestamp(6))
  and (q.due_at is null or q.due_at > '1970-01-01') and q.place not in (?)
limit ?
