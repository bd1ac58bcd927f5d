select distinct cast(found.type as binary) as type
from (
  select m.type from `txbox_local_parked` as m force index (local_parked_unhandled)
  where m.consumer = ? and m.unhandled = 1 and m.type is not null
  limit 10000
) as found
order by type
limit 10
