delete p
from json_table(?, '$[*]' columns (place bigint unsigned path '$')) as locked
straight_join `txbox_local_parked` as p force index (primary) on p.place = locked.place
