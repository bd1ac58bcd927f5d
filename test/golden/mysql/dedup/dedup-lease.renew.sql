update `txbox_dedup_leases` force index (primary)
set token = ?, expires_at = utc_timestamp(6) + interval ? microsecond, content_hash = ?, processed_at = null, result = null
where consumer = ? and `key` = ? and expires_at <= utc_timestamp(6)
