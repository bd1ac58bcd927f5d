update "txbox".queue
set due_at = timestamptz 'epoch', receipt = null, payload = ''
where topic = $1::text and place = $2::bigint and receipt = $3::uuid and due_at > pg_catalog.clock_timestamp() and order_key is not null
