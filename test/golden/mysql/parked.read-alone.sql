select cast(p.place as char) as seq, cast(p.attempts as char) as attempts,
  cast(p.order_key is not null as char) as ordered, cast(p.`id` as binary) as `id`, cast(p.`topic` as binary) as `topic`, cast(p.`key` as binary) as `key`, cast(p.`type` as binary) as `type`, cast(p.`content_type` as binary) as `content_type`, cast(p.`headers` as binary) as `headers`, cast(p.`correlation_id` as binary) as `correlation_id`,
  cast(timestampdiff(microsecond, '1970-01-01', p.created_at) as char) as created_at,
  cast(octet_length(p.payload) as char) as payload_bytes,
  case when octet_length(p.payload) <= ? then p.payload end as payload, null as later
from json_table(?, '$[*]' columns (place bigint unsigned path '$')) as j
straight_join `txbox_parked` as p force index (primary) on p.place = j.place
