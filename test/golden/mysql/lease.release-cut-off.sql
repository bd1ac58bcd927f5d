update `txbox_leases`
set owner = null, expires_at = null, crashes = least(crashes, 1000000) + (CUT), in_flight = case when CUT then in_flight end
where owner = ? and (ROWS)
