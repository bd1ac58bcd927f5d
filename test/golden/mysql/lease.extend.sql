update `txbox_leases`
set expires_at = utc_timestamp(6) + interval ? microsecond
where name in (?)
