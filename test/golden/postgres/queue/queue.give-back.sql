update "txbox".queue
set receipt = null,
  due_at = pg_catalog.clock_timestamp() + coalesce($3::double precision, 0) * interval '1 millisecond',
  error = coalesce($4, error), attempts = attempts - $5::integer, timeouts = 0
where place = $1::bigint and receipt = $2::uuid and due_at > pg_catalog.clock_timestamp()
returning place::text as place
