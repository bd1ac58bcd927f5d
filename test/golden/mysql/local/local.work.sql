(select '0' as n, null as waiting, null as due, cast(connection_id() as char) as connection, case when connection_id() not in (?) or @@server_uuid <> ? then concat(@@server_uuid, '/', unix_timestamp() - (
    select variable_value from performance_schema.global_status where variable_name = 'Uptime'
  )) end as server)
union all
(select cast(j.n as char) as n, (
  select '1' from `txbox_local_outbox` as o force index (primary)
  where o.consumer = cast(j.consumer as binary) and o.shard = j.shard
  limit 1
) as waiting, (
  select '1' from `txbox_local_parked` as p force index (local_parked_due)
  where p.consumer = cast(j.consumer as binary) and p.shard = j.shard and p.due_at <= utc_timestamp(6) and p.dead_at is null
  limit 1
) as due, null as connection, null as server
from json_table(?, _utf8mb4'$[*]' columns (
  n for ordinality,
  consumer varchar(100) character set utf8mb4 path _utf8mb4'$[0]',
  shard smallint unsigned path _utf8mb4'$[1]'
)) as j)
