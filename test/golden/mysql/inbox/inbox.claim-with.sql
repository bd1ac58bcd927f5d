insert into `txbox_inbox` (consumer, `key`, correlation_id, processed_at, expires_at, result, content_hash)
values (?, ?, ?, utc_timestamp(6), utc_timestamp(6) + interval ? microsecond, ?, ?)
