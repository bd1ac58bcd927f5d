select k.hexadecimal as order_key, cast(k.first as char) as first,
  cast(k.first is not null and f.due_at is null as char) as waits,
  cast(k.flight as char) as flight, cast(g.due_at > utc_timestamp(6) as char) as live
from (
  select j.hexadecimal, (
    select f.place from `txbox_queue` as f force index (queue_order)
    where f.topic = ? and f.shard = ? and f.order_key = unhex(j.hexadecimal) and (f.due_at is null or f.due_at > '1970-01-01')
    order by f.topic, f.shard, f.order_key, f.place
    limit 1
  ) as first, (
    select g.place from `txbox_queue` as g force index (queue_flight)
    where g.topic = ? and g.shard = ? and g.flight = 1 and g.order_key = unhex(j.hexadecimal)
    order by g.due_at desc
    limit 1
  ) as flight
  from json_table(?, _utf8mb4'$[*]' columns (hexadecimal varchar(2040) character set ascii path _utf8mb4'$')) as j
) as k
left join `txbox_queue` as f force index (primary) on f.place = k.first
left join `txbox_queue` as g force index (primary) on g.place = k.flight
