select cast(i.expires_at > utc_timestamp(6) as char) as live, cast(timestampdiff(microsecond, '1970-01-01', i.processed_at) as char) as processed_at,
  cast(i.correlation_id as binary) as correlation_id, cast(i.result as binary) as result,
  hex(i.content_hash) as content_hash
from `txbox_inbox` as i
where i.consumer = ? and i.`key` = ?
for share nowait
