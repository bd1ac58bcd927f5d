update `txbox_leases`
set owner = null, expires_at = null
where owner = ? and (ROWS)
