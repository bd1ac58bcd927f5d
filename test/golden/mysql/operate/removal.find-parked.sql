select cast(m.place as char) as place
from `txbox_local_parked` as m force index (primary)
where m.consumer = ? and m.place > ?
  and cast(m.type as binary) = ?
order by m.place
limit ?
