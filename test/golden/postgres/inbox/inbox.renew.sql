update "txbox".inbox
set correlation_id = $3, processed_at = pg_catalog.clock_timestamp(), expires_at = pg_catalog.clock_timestamp() + $4::interval, result = null, content_hash = null
where consumer = $1 and key = $2 and expires_at <= pg_catalog.clock_timestamp()
