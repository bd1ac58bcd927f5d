select cast(p.place as char) as place
from json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$')) as j
straight_join `txbox_local_parked` as p force index (primary) on p.place = j.place
where p.dead_at is null
for update of p skip locked
