select cast(d.place as char) as place, cast(d.shard as char) as shard, cast(d.deliver_at is not null as char) as scheduled,
  cast(d.`id` as binary) as `id`, cast(d.`topic` as binary) as `topic`, cast(d.`type` as binary) as `type`, cast(d.`key` as binary) as `key`, cast(d.`content_type` as binary) as `content_type`, cast(d.`correlation_id` as binary) as `correlation_id`, cast(d.`error` as binary) as `error`,
  cast(d.attempts as char) as attempts, cast(timestampdiff(microsecond, '1970-01-01', d.created_at) as char) as created_at, cast(d.consumer as binary) as consumer, d.order_key as order_key, cast(timestampdiff(microsecond, '1970-01-01', d.due_at) as char) as due_at
from `txbox_local_parked` as d force index (primary)
where d.dead_at is null and (d.deliver_at is null or d.attempts > 0)
  and d.id in (?)
  and cast(d.topic as binary) = ?
  and cast(d.type as binary) = ?
  and cast(d.`key` as binary) = ?
  and d.consumer = ?
  and d.place > ?
order by d.place
limit ?
