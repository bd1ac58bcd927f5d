select cast(number as char) as number, cast(timestampdiff(microsecond, '1970-01-01', removed_at) as char) as instant
from `txbox_removals` force index (removals_removed_at)
where removed_at <= utc_timestamp(6) - interval ? microsecond and removed_at >= '1970-01-01' + interval ? microsecond
order by removed_at
limit ?
