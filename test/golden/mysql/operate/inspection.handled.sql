select cast(count(*) as char) as handled
from (
  select 1 from `txbox_queue` as q force index (queue_due)
  where q.topic = ? and q.shard in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) and q.due_at = '1970-01-01'
  limit ?
) as counted
