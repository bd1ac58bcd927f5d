delete p
from json_table(?, '$[*]' columns (place bigint unsigned path '$[0]')) as j
straight_join `txbox_local_parked` as p force index (primary) on p.place = j.place
where p.dead_at is not null
