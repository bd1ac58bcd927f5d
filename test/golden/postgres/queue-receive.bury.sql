update "txbox".queue
set dead_at = pg_catalog.clock_timestamp(), due_at = null, receipt = null, order_key = null, error = coalesce(error, $2)
where place = any ($1::bigint[])
