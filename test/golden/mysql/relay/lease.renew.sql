update `txbox_leases`
set expires_at = utc_timestamp(6) + interval ? microsecond
where owner = ? and expires_at > utc_timestamp(6) and ((name = ? and term = ?) or (name = ? and term = ?))
