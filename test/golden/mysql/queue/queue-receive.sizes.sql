select cast(q.place as char) as place, cast(length(q.payload) as char) as bytes
from json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$')) as j
straight_join `txbox_queue` as q force index (primary) on q.place = j.place
