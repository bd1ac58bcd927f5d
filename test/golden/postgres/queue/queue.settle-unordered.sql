delete from "txbox".queue
where topic = $1::text and place = $2::bigint and receipt = $3::uuid and due_at > pg_catalog.clock_timestamp() and order_key is null
