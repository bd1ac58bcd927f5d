select hex(consumer) as consumer, hex(`key`) as `key`,
  cast(timestampdiff(microsecond, '1970-01-01', expires_at) as char) as instant
from `txbox_dedup_leases` force index (dedup_leases_expires_at)
where expires_at <= utc_timestamp(6) and expires_at >= '1970-01-01' + interval ? microsecond
order by expires_at
limit ?
