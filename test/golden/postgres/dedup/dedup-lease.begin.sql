insert into "txbox".dedup_leases (consumer, key, token, expires_at, content_hash)
values ($1, $2, $3::uuid, pg_catalog.clock_timestamp() + $4::interval, pg_catalog.decode($5, 'hex'))
on conflict (consumer, key) do nothing
returning 'true' as changed
