select cast(i.expires_at > utc_timestamp(6) as char) as live, cast(i.result as binary) as result,
  cast(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as char) as now_us
from `txbox_inbox` as i force index (primary)
where i.consumer = ? and i.`key` = ?
for update
