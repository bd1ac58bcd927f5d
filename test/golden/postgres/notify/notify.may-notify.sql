select (
  pg_catalog.has_function_privilege('pg_catalog.pg_notify(text, text)', 'execute')
  and pg_catalog.has_function_privilege('pg_catalog.pg_notification_queue_usage()', 'execute')
)::text as allowed
