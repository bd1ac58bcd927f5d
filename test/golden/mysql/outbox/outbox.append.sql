insert into `txbox_outbox`
  (shard, id, topic, `key`, type, content_type, headers, correlation_id, trace_context, payload, created_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6)),(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6))
