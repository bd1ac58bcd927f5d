update "txbox".leases as l
set crashes = 0, in_flight = null
where l.name = $1 and l.owner = $2 and l.term = $3::bigint
