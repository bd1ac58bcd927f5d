select cast(o.seq as char) as seq, cast(o.`id` as binary) as `id`, cast(o.`topic` as binary) as `topic`, cast(o.`key` as binary) as `key`, cast(o.`type` as binary) as `type`, cast(o.`content_type` as binary) as `content_type`, cast(o.`headers` as binary) as `headers`, cast(o.`correlation_id` as binary) as `correlation_id`,
  cast(timestampdiff(microsecond, '1970-01-01', o.created_at) as char) as created_at,
  cast(octet_length(o.payload) as char) as payload_bytes,
  case when octet_length(o.payload) <= ? then o.payload end as payload,
  case
    when exists (select 1 from `txbox_parked` as b force index (parked_order) where b.shard = ? and b.order_key is not null)
    then (
      select 1 from `txbox_parked` as p force index (parked_order)
      where p.shard = ? and p.order_key = cast(o.`key` as binary)
      limit 1
    )
  end as blocked
from `txbox_outbox` as o
where o.shard = ?
order by o.seq
limit ?
