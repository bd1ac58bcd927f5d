update "txbox".inbox
set correlation_id = $3, processed_at = pg_catalog.clock_timestamp(), expires_at = pg_catalog.clock_timestamp() + $4::interval, result = $5, content_hash = pg_catalog.decode($6, 'hex')
where consumer = $1 and key = $2 and expires_at <= pg_catalog.clock_timestamp()
