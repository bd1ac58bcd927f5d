select cast(p.place as char) as place
from json_table(?, '$[*]' columns (place bigint unsigned path '$')) as found
straight_join `txbox_local_parked` as p force index (primary) on p.place = found.place
where p.dead_at <= utc_timestamp(6) - interval ? microsecond
for update skip locked
