update json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$')) as j
straight_join `txbox_queue` as q force index (primary) on q.place = j.place
set q.dead_at = utc_timestamp(6), q.due_at = null, q.receipt = null, q.order_key = null, q.error = ifnull(q.error, ?)
