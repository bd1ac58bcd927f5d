update json_table(?, '$[*]' columns (place bigint unsigned path '$')) as j
straight_join `txbox_parked` as p force index (primary) on p.place = j.place
set p.suspect = 1
where p.dead_at is null
