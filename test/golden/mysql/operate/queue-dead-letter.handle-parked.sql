update json_table(?, '$[*]' columns (place bigint unsigned path '$')) as j
straight_join `txbox_queue` as p force index (primary) on p.place = j.place
set p.due_at = '1970-01-01', p.receipt = null
where p.dead_at is null and p.order_key is not null
