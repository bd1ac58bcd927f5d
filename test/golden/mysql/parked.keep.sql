update json_table(?, '$[*]' columns (
  place bigint unsigned path '$[0]',
  attempts int unsigned path '$[1]',
  retry_us bigint unsigned path '$[2]',
  dead tinyint path '$[3]',
  error text character set utf8mb4 path '$[4]'
)) as v
straight_join `txbox_parked` as p force index (primary) on p.place = v.place
set p.attempts = v.attempts,
  p.error = v.error,
  p.due_at = utc_timestamp(6) + interval v.retry_us microsecond,
  p.dead_at = case when v.dead then utc_timestamp(6) end,
  p.order_key = case when not v.dead then p.order_key end
where p.dead_at is null
