update `txbox_leases` as l
set l.in_flight = ?
where l.name = ? and l.owner = ? and l.term = ? and l.expires_at > utc_timestamp(6)
