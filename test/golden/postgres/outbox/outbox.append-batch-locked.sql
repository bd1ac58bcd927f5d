with locked as materialized (
  select pg_catalog.count(pg_catalog.pg_advisory_xact_lock(number)) as n
  from (select number from pg_catalog.unnest($11::bigint[]) as wanted (number) order by number) as in_order
)
insert into "txbox".outbox (shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload)
select shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload
from locked cross join rows from (
  pg_catalog.unnest($1::smallint[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::text[]), pg_catalog.unnest($4::text[]),
  pg_catalog.unnest($5::text[]), pg_catalog.unnest($6::text[]), pg_catalog.unnest($7::text[]), pg_catalog.unnest($8::text[]),
  pg_catalog.unnest($9::text[]), pg_catalog.unnest($10::bytea[])
) with ordinality as given (shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload, n)
order by given.n
