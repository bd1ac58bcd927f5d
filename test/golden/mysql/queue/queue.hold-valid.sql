select cast(q.place as char) as place, hex(q.receipt) as receipt, q.order_key as order_key, cast(q.shard as char) as shard,
  q.topic as topic
from `txbox_queue` as q force index (primary)
where q.place in (?) and (q.place, q.receipt) in ((?, ?), (?, ?)) and q.topic = ? and q.due_at > utc_timestamp(6)
for update
