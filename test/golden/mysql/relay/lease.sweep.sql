delete from `txbox_leases`
where name in (?) and (owner is null or expires_at < utc_timestamp(6) - interval ? microsecond)
