insert into `txbox_queue`
  (shard, id, topic, `key`, type, content_type, headers, correlation_id, trace_context, payload, order_key, created_at, due_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6), utc_timestamp(6)),(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6), utc_timestamp(6))
