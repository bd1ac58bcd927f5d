update json_table(?, _utf8mb4'$[*]' columns (
  place bigint unsigned path _utf8mb4'$.number',
  stamp bigint path _utf8mb4'$.stamp',
  attempts int unsigned path _utf8mb4'$.attempts',
  retry_us bigint unsigned path _utf8mb4'$.retry_us',
  dead tinyint path _utf8mb4'$.dead',
  suspect tinyint path _utf8mb4'$.suspect',
  unhandled tinyint path _utf8mb4'$.unhandled',
  error mediumtext character set utf8mb4 path _utf8mb4'$.error',
  errors mediumtext character set utf8mb4 path _utf8mb4'$.errors'
)) as v
straight_join `txbox_local_parked` as p force index (primary) on p.place = v.place
set p.attempts = v.attempts,
  p.error = v.error,
  p.errors = ifnull(v.errors, p.errors),
  p.suspect = v.suspect,
  p.unhandled = v.unhandled,
  p.due_at = utc_timestamp(6) + interval v.retry_us microsecond,
  p.dead_at = case when v.dead then utc_timestamp(6) end,
  p.order_key = case when not v.dead then p.order_key end
where p.dead_at is null and least(greatest(p.created_at, cast('1700-01-01' as datetime(6))), cast('2200-01-01' as datetime(6))) = cast('1970-01-01' as datetime(6)) + interval v.stamp microsecond
