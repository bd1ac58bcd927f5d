select cast(expires_at > utc_timestamp(6) as char) as live, cast(token = ? as char) as own,
  cast(timestampdiff(microsecond, '1970-01-01', processed_at) as char) as processed_at,
  cast(timestampdiff(microsecond, utc_timestamp(6), expires_at) div 1000 + 1 as char) as remaining_ms,
  cast(result as binary) as result, hex(content_hash) as content_hash
from `txbox_dedup_leases`
where consumer = ? and `key` = ?
