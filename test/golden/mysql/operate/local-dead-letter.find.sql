select cast(d.place as char) as place, cast(d.id as binary) as id
from `txbox_local_parked` as d
where d.dead_at is not null
  and d.consumer = ?
  and d.id > ?
order by d.id, d.place
limit ?
