update "txbox".dedup_leases
set token = $3::uuid, expires_at = pg_catalog.clock_timestamp() + $4::interval, content_hash = pg_catalog.decode($5, 'hex'), processed_at = null, result = null
where consumer = $1 and key = $2 and expires_at <= pg_catalog.clock_timestamp()
returning 'true' as changed
