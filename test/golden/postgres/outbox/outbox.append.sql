insert into "txbox".outbox (shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
