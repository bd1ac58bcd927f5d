update json_table(?, '$[*]' columns (place bigint unsigned path '$[0]', first tinyint path '$[1]')) as j
straight_join `txbox_local_parked` as p force index (primary) on p.place = j.place
set p.dead_at = null, p.redriven_at = utc_timestamp(6), p.attempts = 0,
  p.order_key = case when p.deliver_at is null then cast(p.`key` as binary) end,
  p.due_at = case when j.first then utc_timestamp(6) end
where p.dead_at is not null
