set statement sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1 for 
delete from `txbox_leases`
where name in (?) and (owner is null or expires_at < utc_timestamp(6) - interval ? microsecond)
