select cast(r.number as char) as number
from json_table(?, '$[*]' columns (number bigint unsigned path '$')) as found
straight_join `txbox_removals` as r force index (primary) on r.number = found.number
for update skip locked
