update `txbox_leases`
set owner = null, expires_at = null, in_flight = null
where owner = ? and ((name = ? and term = ?) or (name = ? and term = ?))
