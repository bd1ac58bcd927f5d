insert into "txbox".inbox (consumer, key, correlation_id, processed_at, expires_at, result, content_hash)
values ($1, $2, $3, pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp() + $4::interval, $5, pg_catalog.decode($6, 'hex'))
on conflict (consumer, key) do nothing
