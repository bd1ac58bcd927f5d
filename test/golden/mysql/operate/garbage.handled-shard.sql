select cast(q.shard as char) as shard
from `txbox_queue` as q force index (queue_due)
where q.topic = ? and q.shard in (?) and q.due_at = '1970-01-01'
order by q.shard
limit 1
