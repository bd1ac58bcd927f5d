update `txbox_inbox` force index (primary)
set processed_at = utc_timestamp(6), expires_at = utc_timestamp(6) + interval ? microsecond
where consumer = ? and `key` = ? and cast(result as binary) = ?
