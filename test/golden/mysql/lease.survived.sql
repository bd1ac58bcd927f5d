update `txbox_leases`
set crashes = 0, in_flight = null
where name = ? and owner = ? and term = ?
