insert into `txbox_local_outbox`
  (consumer, shard, id, topic, `key`, type, content_type, headers, correlation_id, trace_context, payload, created_at)
select s.consumer, m.shard, m.id, m.topic, m.`key`, m.type, m.content_type, m.headers, m.correlation_id, m.trace_context, m.payload,
  utc_timestamp(6)
from (
select ? as n, ? as shard, ? as id, ? as topic, ? as `key`, ? as type, ? as content_type, ? as headers, ? as correlation_id, ? as trace_context, ? as payload
union all select ? as n, ? as shard, ? as id, ? as topic, ? as `key`, ? as type, ? as content_type, ? as headers, ? as correlation_id, ? as trace_context, ? as payload
) as m
join (
select r.type, r.consumer from `txbox_subscriptions` as r force index (primary) where r.type in (?)
union select ? as type, ? as consumer
) as s on s.type = cast(m.type as binary)
where (select count(distinct u.type) from `txbox_subscriptions` as u force index (primary) where u.type in (?)) = ?
order by m.n, s.consumer
