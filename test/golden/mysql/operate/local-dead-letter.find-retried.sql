select cast(d.place as char) as place, cast(d.id as binary) as id
from `txbox_local_parked` as d force index (primary)
where d.dead_at is null and (d.deliver_at is null or d.attempts > 0) and d.due_at > utc_timestamp(6)
  and d.consumer = ?
  and locate(?, cast(d.error as binary)) > 0
  and d.place > ?
order by d.place
limit ?
