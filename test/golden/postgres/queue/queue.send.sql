insert into "txbox".queue (shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload, order_key, due_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $4, pg_catalog.clock_timestamp())
