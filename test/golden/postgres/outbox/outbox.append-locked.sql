with locked as materialized (select pg_catalog.pg_advisory_xact_lock($10::bigint))
insert into "txbox".outbox (shard, id, topic, key, type, content_type, headers, correlation_id, payload)
select $1::smallint, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::bytea
from locked
