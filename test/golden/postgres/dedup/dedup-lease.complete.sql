update "txbox".dedup_leases
set processed_at = pg_catalog.clock_timestamp(), expires_at = pg_catalog.clock_timestamp() + $4::interval, result = $5
where consumer = $1 and key = $2 and token = $3::uuid and processed_at is null
  and expires_at > pg_catalog.clock_timestamp()
returning 'true' as changed
