update "txbox".queue
set due_at = pg_catalog.clock_timestamp() + $3::double precision * interval '1 millisecond'
where place = $1::bigint and receipt = $2::uuid
returning place::text as place
