insert into `txbox_queue` (topic, shard, order_key, due_at, created_at, id, content_type, headers, payload)
values (?, ?, ?, '1970-01-01', utc_timestamp(6), '', '', '', '')
