update "txbox".leases as l
set in_flight = $4
where l.name = $1 and l.owner = $2 and l.term = $3::bigint and l.expires_at > pg_catalog.clock_timestamp()
returning 'true' as held
