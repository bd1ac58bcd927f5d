update "txbox".queue
set due_at = pg_catalog.clock_timestamp() + $4::double precision * interval '1 millisecond'
where topic = $1::text and place = $2::bigint and receipt = $3::uuid
returning place::text as place
