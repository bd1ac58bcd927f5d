insert into `txbox_queue`
  (shard, id, topic, `key`, type, content_type, headers, correlation_id, trace_context, payload, created_at, deliver_at, due_at)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6), '1970-01-01' + interval ? * 1000 microsecond,
  '1970-01-01' + interval ? * 1000 microsecond)
