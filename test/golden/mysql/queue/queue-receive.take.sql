update json_table(?, _utf8mb4'$[*]' columns (
  place bigint unsigned path _utf8mb4'$[0]', timeouts int unsigned path _utf8mb4'$[1]'
)) as j
straight_join `txbox_queue` as q force index (primary) on q.place = j.place
set q.receipt = ?, q.attempts = q.attempts + 1, q.timeouts = j.timeouts,
  q.due_at = utc_timestamp(6) + interval ? microsecond
