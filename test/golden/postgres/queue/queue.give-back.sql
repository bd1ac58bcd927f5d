update "txbox".queue
set receipt = null,
  due_at = pg_catalog.clock_timestamp() + coalesce($4::double precision, 0) * interval '1 millisecond',
  error = coalesce($5, error), attempts = attempts - $6::integer, timeouts = 0
where topic = $1::text and place = $2::bigint and receipt = $3::uuid and due_at > pg_catalog.clock_timestamp()
returning place::text as place
