select cast(m.place as char) as place
from json_table(?, '$[*]' columns (place bigint unsigned path '$[0]')) as j
straight_join `txbox_local_parked` as m force index (primary) on m.place = j.place
for update skip locked
