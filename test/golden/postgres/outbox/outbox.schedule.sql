insert into "txbox".parked (shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload, deliver_at, due_at)
select shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload, instant.at, instant.at
from rows from (
  pg_catalog.unnest($1::smallint[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::text[]), pg_catalog.unnest($4::text[]),
  pg_catalog.unnest($5::text[]), pg_catalog.unnest($6::text[]), pg_catalog.unnest($7::text[]), pg_catalog.unnest($8::text[]),
  pg_catalog.unnest($9::text[]), pg_catalog.unnest($10::bytea[]), pg_catalog.unnest($11::double precision[])
) as given (shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload, at_ms)
cross join lateral pg_catalog.to_timestamp(given.at_ms / 1000::double precision) as instant (at)
