update json_table(?, '$[*]' columns (place bigint unsigned path '$')) as j
straight_join `txbox_local_parked` as p force index (primary) on p.place = j.place
set p.due_at = utc_timestamp(6)
where p.dead_at is null
