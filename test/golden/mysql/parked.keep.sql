update json_table(?, '$[*]' columns (
  place bigint unsigned path '$.number',
  attempts int unsigned path '$.attempts',
  retry_us bigint unsigned path '$.retry_us',
  dead tinyint path '$.dead',
  error text character set utf8mb4 path '$.error'
)) as v
straight_join `txbox_parked` as p force index (primary) on p.place = v.place
set p.attempts = v.attempts,
  p.error = v.error,
  p.due_at = utc_timestamp(6) + interval v.retry_us microsecond,
  p.dead_at = case when v.dead then utc_timestamp(6) end,
  p.order_key = case when not v.dead then p.order_key end
where p.dead_at is null
