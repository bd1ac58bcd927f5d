insert into "txbox".inbox (consumer, key, processed_at, expires_at)
values ($1, $2, pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp() + $3::double precision * interval '1 millisecond')
on conflict (consumer, key) do nothing
returning key
