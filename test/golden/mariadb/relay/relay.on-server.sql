(select cast(connection_id() as char) as shard, '0' as due, case when connection_id() not in (?) or concat(@@hostname, ':', @@port, ':', @@server_id) <> ? then concat(concat(@@hostname, ':', @@port, ':', @@server_id), '/', unix_timestamp() - (
    select variable_value from information_schema.global_status where variable_name = 'Uptime'
  )) end as server)
