delete from "txbox".queue
where place = $1::bigint and receipt = $2::uuid and due_at > pg_catalog.clock_timestamp() and order_key is null
