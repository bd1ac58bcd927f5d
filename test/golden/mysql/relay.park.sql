insert into `txbox_parked` (created_at, due_at, dead_at, attempts, shard, order_key, id, topic, `key`, type, content_type, headers,
  correlation_id, trace_context, error, payload)
select o.created_at, utc_timestamp(6) + interval v.retry_us microsecond, case when v.dead then utc_timestamp(6) end, v.attempts,
  o.shard, case when not v.dead then cast(o.`key` as binary) end, cast(o.id as binary), o.topic, o.`key`, o.type,
  o.content_type, o.headers, o.correlation_id, o.trace_context, v.error, o.payload
from json_table(?, '$[*]' columns (
  seq bigint unsigned path '$.number',
  attempts int unsigned path '$.attempts',
  retry_us bigint unsigned path '$.retry_us',
  dead tinyint path '$.dead',
  error text character set utf8mb4 path '$.error'
)) as v
straight_join `txbox_outbox` as o force index (primary) on o.shard = ? and o.seq = v.seq
order by o.seq
