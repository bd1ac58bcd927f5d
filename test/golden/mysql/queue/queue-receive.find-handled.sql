select cast(q.place as char) as place, hex(q.order_key) as order_key
from `txbox_queue` as q force index (queue_due)
where q.topic = ? and q.shard = ? and q.due_at = '1970-01-01'
limit ?
