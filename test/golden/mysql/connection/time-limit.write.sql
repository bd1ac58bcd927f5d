delete /*+ set_var(lock_wait_timeout=4) */ from `txbox_leases`
where name in (?) and (owner is null or expires_at < utc_timestamp(6) - interval ? microsecond)
