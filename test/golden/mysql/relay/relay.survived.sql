update `txbox_leases` as l
set l.crashes = 0, l.in_flight = null
where l.name = ? and l.owner = ? and l.term = ? and l.expires_at > utc_timestamp(6)
