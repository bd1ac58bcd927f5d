update `txbox_leases`
set owner = ?, term = term + 1, expires_at = utc_timestamp(6) + interval ? microsecond
where name in (?)
