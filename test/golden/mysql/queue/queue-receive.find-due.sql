select cast(q.place as char) as place, cast(timestampdiff(microsecond, '1970-01-01', q.due_at) as char) as due_us
from `txbox_queue` as q force index (queue_due)
where q.topic = ? and q.shard = ? and q.due_at <= utc_timestamp(6)
  and q.due_at >= cast('1970-01-01' as datetime(6)) + interval ? microsecond
  and (q.due_at > cast('1970-01-01' as datetime(6)) + interval ? microsecond or q.place > ?)
order by q.due_at, q.place
limit ?
