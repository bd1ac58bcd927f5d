update "txbox".waiting
set dead_at = pg_catalog.clock_timestamp(), reason = $4
where consumer = $1 and key = $2 and from_version = any($3::bigint[]) and dead_at is null
