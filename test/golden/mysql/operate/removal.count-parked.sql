select cast(count(*) as char) as n
from (
  select 1 from `txbox_local_parked` as m force index (local_parked_due_since)
  where m.consumer = ? and m.due_since is not null
  and cast(m.type as binary) = ? limit ?
) as counted
