update "txbox".queue as q
set dead_at = pg_catalog.clock_timestamp(), due_at = null, receipt = null, order_key = null, error = coalesce(q.error, $2)
where q.place = any ($1::bigint[])
returning q.place::text as place, q.receipt::text as receipt, q.shard::text as shard,
  q.attempts::text as attempts, q.timeouts::text as timeouts,
  (q.order_key is not null)::text as ordered, q.id, q.topic, q.key, q.type, q.correlation_id, q.trace_context,
  nullif(q.content_type, 'application/json') as content_type, nullif(q.headers, '{}') as headers,
  (extract(epoch from least(greatest(q.created_at, '0001-01-01Z'::timestamptz), '9999-12-31Z'::timestamptz)) * 1000000::numeric)::bigint::text as stamp,
  (extract(epoch from q.due_at) * 1000000::numeric)::bigint::text as due_us,
  pg_catalog.encode(q.payload, 'escape') as payload, q.error as error
