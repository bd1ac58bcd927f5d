update json_table(?, '$[*]' columns (
  place bigint unsigned path '$.number',
  stamp bigint path '$.stamp',
  attempts int unsigned path '$.attempts',
  retry_us bigint unsigned path '$.retry_us',
  dead tinyint path '$.dead',
  suspect tinyint path '$.suspect',
  error mediumtext character set utf8mb4 path '$.error',
  errors mediumtext character set utf8mb4 path '$.errors'
)) as v
straight_join `txbox_parked` as p force index (primary) on p.place = v.place
set p.attempts = v.attempts,
  p.error = v.error,
  p.errors = ifnull(v.errors, p.errors),
  p.suspect = v.suspect,
  p.due_at = utc_timestamp(6) + interval v.retry_us microsecond,
  p.dead_at = case when v.dead then utc_timestamp(6) end,
  p.order_key = case when not v.dead then p.order_key end
where p.dead_at is null and p.created_at = cast('1970-01-01' as datetime(6)) + interval v.stamp microsecond
