update `txbox_dedup_leases` force index (primary)
set processed_at = utc_timestamp(6), expires_at = utc_timestamp(6) + interval ? microsecond, result = ?
where consumer = ? and `key` = ? and token = ? and processed_at is null and expires_at > utc_timestamp(6)
