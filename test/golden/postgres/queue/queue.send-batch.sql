insert into "txbox".queue (shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload, order_key, due_at)
select shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload, key, pg_catalog.clock_timestamp()
from rows from (
  pg_catalog.unnest($1::smallint[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::text[]), pg_catalog.unnest($4::text[]),
  pg_catalog.unnest($5::text[]), pg_catalog.unnest($6::text[]), pg_catalog.unnest($7::text[]), pg_catalog.unnest($8::text[]),
  pg_catalog.unnest($9::text[]), pg_catalog.unnest($10::bytea[])
) with ordinality as given (shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload, n)
order by n
