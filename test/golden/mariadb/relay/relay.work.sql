(select cast(connection_id() as char) as shard, '0' as due, case when connection_id() not in (?) or concat(@@hostname, ':', @@port, ':', @@server_id) <> ? then concat(concat(@@hostname, ':', @@port, ':', @@server_id), '/', unix_timestamp() - (
    select variable_value from information_schema.global_status where variable_name = 'Uptime'
  )) end as server)
union all
(select cast(? as char) as shard, '0' as due, null as server from `txbox_outbox` as o where o.shard = ? limit 1)
union all
(select cast(? as char) as shard, '1' as due, null as server from `txbox_parked` as p where p.shard = ? and p.due_at <= utc_timestamp(6) and p.dead_at is null limit 1)
