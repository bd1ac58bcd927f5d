update `txbox_inbox` force index (primary)
set correlation_id = ?, processed_at = utc_timestamp(6), expires_at = utc_timestamp(6) + interval ? microsecond,
  result = ?, content_hash = ?, claim_token = null
where consumer = ? and `key` = ? and expires_at <= utc_timestamp(6)
