select cast(q.place as char) as place, q.topic as topic, hex(q.order_key) as order_key, hex(q.receipt) as receipt,
  cast(q.attempts as char) as attempts, cast(q.timeouts as char) as timeouts,
  cast(q.due_at is null as char) as waits, cast(q.due_at > '1970-01-01' and q.due_at <= utc_timestamp(6) as char) as visible,
  cast(q.due_at > utc_timestamp(6) as char) as live, cast(q.dead_at is not null as char) as dead,
  cast(timestampdiff(microsecond, '1970-01-01', q.due_at) as char) as due_us, case when j.n <= 16 then (
    select cast(length(p.payload) as char) from `txbox_queue` as p force index (primary) where p.place = q.place
  ) end as bytes
from json_table(?, _utf8mb4'$[*]' columns (n for ordinality, place bigint unsigned path _utf8mb4'$')) as j
straight_join `txbox_queue` as q force index (primary) on q.place = j.place
for update of q skip locked
