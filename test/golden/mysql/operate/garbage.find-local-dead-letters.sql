select cast(place as char) as place, cast(timestampdiff(microsecond, '1970-01-01', dead_at) as char) as instant
from `txbox_local_parked` force index (local_parked_dead)
where dead_at <= utc_timestamp(6) - interval ? microsecond and dead_at >= '1970-01-01' + interval ? microsecond
order by dead_at
limit ?
