update `txbox_leases`
set in_flight = ?
where name = ? and owner = ? and term = ? and expires_at > utc_timestamp(6)
