select hex(id) as id, cast(redriven_at as char) as at, cast(place as char) as place,
  cast(timestampdiff(microsecond, '1970-01-01', redriven_at) as char) as instant
from `txbox_redrives` force index (redrives_redriven_at)
where redriven_at <= utc_timestamp(6) - interval ? microsecond and redriven_at >= '1970-01-01' + interval ? microsecond
order by redriven_at
limit ?
