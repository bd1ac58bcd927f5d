update `txbox_leases`
set owner = null, expires_at = null, crashes = crashes + (CUT), in_flight = case when CUT then in_flight end
where owner = ? and (ROWS)
