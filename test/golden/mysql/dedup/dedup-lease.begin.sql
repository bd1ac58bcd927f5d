insert into `txbox_dedup_leases` (consumer, `key`, token, expires_at, content_hash)
values (?, ?, ?, utc_timestamp(6) + interval ? microsecond, ?)
