update `txbox_leases`
set owner = null, expires_at = null, in_flight = null
where owner = ? and (ROWS)
