select cast(p.place as char) as place
from `txbox_local_parked` as p force index (local_parked_unhandled)
where p.consumer = ? and p.unhandled = 1 and p.place > ? and cast(p.type as binary) in (?) and p.due_at > utc_timestamp(6)
  and p.dead_at is null
order by p.place
limit ?
