select cast(count(*) as char) as n
from (
  select 1 from `txbox_local_outbox` as m force index (primary) where m.consumer = ?
  and cast(m.type as binary) = ? limit ?
) as counted
