update json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$')) as j
straight_join `txbox_queue` as q force index (primary) on q.place = j.place
set q.due_at = utc_timestamp(6) + interval ? microsecond
