update "txbox".inbox
set processed_at = pg_catalog.clock_timestamp(), expires_at = pg_catalog.clock_timestamp() + $4::interval
where consumer = $1 and key = $2 and result = $3
