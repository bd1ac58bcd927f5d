select cast(p.place as char) as place
from `txbox_local_parked` as p force index (primary)
where p.place >= ? and p.place <= ? and p.consumer = ? and p.shard = ? and p.dead_at is null and not p.suspect
  and (p.due_at is null or p.due_at <= utc_timestamp(6))
