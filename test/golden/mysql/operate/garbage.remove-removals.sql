delete r
from json_table(?, '$[*]' columns (number bigint unsigned path '$')) as locked
straight_join `txbox_removals` as r force index (primary) on r.number = locked.number
