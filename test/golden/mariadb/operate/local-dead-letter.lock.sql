select cast(d.place as char) as place, cast(d.shard as char) as shard, cast(d.deliver_at is not null as char) as scheduled,
  cast(d.`id` as binary) as `id`, cast(d.`topic` as binary) as `topic`, cast(d.`type` as binary) as `type`, cast(d.`key` as binary) as `key`, cast(d.`content_type` as binary) as `content_type`, cast(d.`correlation_id` as binary) as `correlation_id`, cast(d.`error` as binary) as `error`,
  cast(d.attempts as char) as attempts, cast(timestampdiff(microsecond, '1970-01-01', d.created_at) as char) as created_at, cast(d.consumer as binary) as consumer, cast(timestampdiff(microsecond, '1970-01-01', d.dead_at) as char) as dead_at,
  cast(timestampdiff(microsecond, '1970-01-01', (
    select r.redriven_at from `txbox_redrives` as r
    where r.id = d.id and r.consumer = d.consumer order by r.redriven_at desc limit 1
  )) as char) as redriven_at,
  (
    select cast(r.redriven_by as binary) from `txbox_redrives` as r
    where r.id = d.id and r.consumer = d.consumer order by r.redriven_at desc limit 1
  ) as redriven_by
from json_table(?, '$[*]' columns (place bigint unsigned path '$')) as j
straight_join `txbox_local_parked` as d force index (primary) on d.place = j.place
where d.dead_at is not null
order by d.id, d.place
for update
