select hex(q.topic) as topic
from `txbox_queue` as q force index (queue_due)
where q.topic > ?
order by q.topic
limit 1
