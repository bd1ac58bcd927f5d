select cast(d.place as char) as place, cast(d.id as binary) as id
from `txbox_queue` as d force index (primary)
where d.dead_at is null and (d.deliver_at is null or d.attempts > 0) and (d.due_at is null or d.due_at > '1970-01-01') and d.due_at > utc_timestamp(6) and d.receipt is null
  and d.topic = ?
  and locate(?, cast(d.error as binary)) > 0
  and d.place > ?
order by d.place
limit ?
