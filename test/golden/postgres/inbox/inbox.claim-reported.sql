insert into "txbox".inbox (consumer, key, correlation_id, processed_at, expires_at, result, content_hash)
select $1::text, $2::text, $3::text, pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp() + $4::interval, $5::text, pg_catalog.decode($6, 'hex')
where pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended(pg_catalog.concat_ws(pg_catalog.chr(31), $1::text, $2::text) collate "C", 2088571549))
on conflict (consumer, key) do nothing
