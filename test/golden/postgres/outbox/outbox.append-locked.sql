with locked as materialized (select pg_catalog.pg_advisory_xact_lock($11::bigint))
insert into "txbox".outbox (shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload)
select $1::smallint, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text, $10::bytea
from locked
