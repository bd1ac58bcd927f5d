(select cast(connection_id() as char) as shard, '0' as due, case when connection_id() not in (?) or @@server_uuid <> ? then concat(@@server_uuid, '/', unix_timestamp() - (
    select variable_value from performance_schema.global_status where variable_name = 'Uptime'
  )) end as server)
