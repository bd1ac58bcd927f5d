insert into `txbox_parked`
  (shard, id, topic, `key`, type, content_type, headers, correlation_id, payload, created_at, deliver_at, due_at)
values
