insert into `txbox_outbox`
  (shard, id, topic, `key`, type, content_type, headers, correlation_id, trace_context, payload, created_at)
values ((select if(count(*) = ?, ?, exp(1000 + count(*))) from `txbox_key_locks` force index (primary) where number in (?) for update),
  ?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6)),(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6))
