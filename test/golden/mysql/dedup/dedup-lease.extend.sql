update `txbox_dedup_leases` force index (primary)
set expires_at = utc_timestamp(6) + interval ? microsecond
where consumer = ? and `key` = ? and token = ? and processed_at is null and expires_at > utc_timestamp(6)
