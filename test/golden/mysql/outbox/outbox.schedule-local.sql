insert into `txbox_local_parked`
  (consumer, shard, id, topic, `key`, type, content_type, headers, correlation_id, trace_context, payload, created_at, deliver_at, due_at)
select s.consumer, m.shard, cast(m.id as binary), m.topic, m.`key`, m.type, m.content_type, m.headers, m.correlation_id, m.trace_context, m.payload,
  utc_timestamp(6), '1970-01-01' + interval m.at_ms * 1000 microsecond, '1970-01-01' + interval m.at_ms * 1000 microsecond
from (
select ? as n, ? as shard, ? as id, ? as topic, ? as `key`, ? as type, ? as content_type, ? as headers, ? as correlation_id, ? as trace_context, ? as payload, ? as at_ms
) as m
join (
select ? as type, ? as consumer
) as s on s.type = cast(m.type as binary)
order by m.n, s.consumer
