delete /*+ set_var(sql_select_limit=18446744073709551615) set_var(sql_big_selects=1) */ from `txbox_leases`
where name in (?) and (owner is null or expires_at < utc_timestamp(6) - interval ? microsecond)
