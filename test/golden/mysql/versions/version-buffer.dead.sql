select hex(w.`key`) as `key`, cast(w.from_version as char) as from_version, cast(w.to_version as char) as to_version, cast(w.kind as binary) as kind, w.payload, cast(w.reason as binary) as reason, cast(floor(timestampdiff(microsecond, '1970-01-01', w.received_at) / 1000) as char) as received_at, cast(floor(timestampdiff(microsecond, '1970-01-01', w.dead_at) / 1000) as char) as dead_at
from `txbox_waiting` as w
where w.consumer = ? and w.dead_at is not null and (? is null or w.`key` = ?)
  and (w.`key` > ? or (w.`key` = ? and w.from_version > ?))
order by w.`key`, w.from_version
limit ?
