select hex(s.type) as type, hex(s.consumer) as consumer,
  cast(timestampdiff(microsecond, '1970-01-01', s.registered_at) as char) as registered_at
from `txbox_subscriptions` as s
order by s.consumer, s.type
