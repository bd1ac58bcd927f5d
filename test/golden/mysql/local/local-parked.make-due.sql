update json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$')) as j
straight_join `txbox_local_parked` as p force index (primary) on p.place = j.place
set p.due_at = utc_timestamp(6)
where p.due_at > utc_timestamp(6) and p.dead_at is null
