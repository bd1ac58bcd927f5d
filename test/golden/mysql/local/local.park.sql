insert into `txbox_local_parked` (created_at, due_at, dead_at, attempts, shard, suspect, unhandled, consumer, order_key, id, topic, `key`,
  type, content_type, headers, correlation_id, trace_context, error, errors, payload)
select o.created_at, utc_timestamp(6) + interval v.retry_us microsecond, case when v.dead then utc_timestamp(6) end, v.attempts,
  o.shard, v.suspect, v.unhandled, o.consumer, case when not v.dead then cast(o.`key` as binary) end, cast(o.id as binary), o.topic,
  o.`key`, o.type, o.content_type, o.headers, o.correlation_id, o.trace_context, v.error, v.errors, o.payload
from json_table(?, _utf8mb4'$[*]' columns (
  seq bigint unsigned path _utf8mb4'$.number',
  stamp bigint path _utf8mb4'$.stamp',
  attempts int unsigned path _utf8mb4'$.attempts',
  retry_us bigint unsigned path _utf8mb4'$.retry_us',
  dead tinyint path _utf8mb4'$.dead',
  suspect tinyint path _utf8mb4'$.suspect',
  unhandled tinyint path _utf8mb4'$.unhandled',
  error mediumtext character set utf8mb4 path _utf8mb4'$.error',
  errors mediumtext character set utf8mb4 path _utf8mb4'$.errors'
)) as v
straight_join `txbox_local_outbox` as o force index (primary) on o.consumer = ? and o.shard = ? and o.seq = v.seq
where least(greatest(o.created_at, cast('1700-01-01' as datetime(6))), cast('2200-01-01' as datetime(6))) = cast('1970-01-01' as datetime(6)) + interval v.stamp microsecond
order by o.seq
