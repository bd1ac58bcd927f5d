update `txbox_leases`
set owner = null, expires_at = null, crashes = least(crashes, 1000000) + ((name = ? and term = ?)), in_flight = case when (name = ? and term = ?) then in_flight end
where owner = ? and ((name = ? and term = ?) or (name = ? and term = ?))
