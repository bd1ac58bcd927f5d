select hex(consumer) as consumer, hex(`key`) as `key`, cast(from_version as char) as from_version,
  cast(timestampdiff(microsecond, '1970-01-01', dead_at) as char) as instant
from `txbox_waiting` force index (waiting_dead_at)
where dead_at <= utc_timestamp(6) - interval ? microsecond and dead_at >= '1970-01-01' + interval ? microsecond
order by dead_at
limit ?
