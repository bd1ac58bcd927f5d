select cast(timestampdiff(microsecond, '1970-01-01', finished_at) div 1000 as char) as finished_at,
  cast(inbox as char) as inbox, cast(dead_letters as char) as dead_letters, cast(duration_ms as char) as duration_ms
from `txbox_collections`
where finished_at is not null
