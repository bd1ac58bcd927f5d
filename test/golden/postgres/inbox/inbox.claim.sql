insert into "txbox".inbox (consumer, key, correlation_id, processed_at, expires_at)
values ($1, $2, $3, pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp() + $4::interval)
on conflict (consumer, key) do nothing
