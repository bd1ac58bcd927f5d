select ? as n, ? as shard, ? as id, ? as topic, ? as `key`, ? as type, ? as content_type, ? as headers, ? as correlation_id, ? as trace_context, ? as payload
