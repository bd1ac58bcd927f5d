with subscribers as materialized (
  select given.consumer collate "C" as consumer from pg_catalog.unnest($11::text[]) as given (consumer)
  union
  select s.consumer from "txbox".subscriptions as s where $12::boolean and s.type = $5::text
), published as (
  insert into "txbox".outbox (shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload)
  select $1::smallint, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text, $10::bytea
  where $3::text is not null
), stored as (
  insert into "txbox".local_outbox (consumer, shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload)
  select s.consumer, $1::smallint, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text, $10::bytea
  from subscribers as s
  order by s.consumer
)
select $5::text as type
where $13::boolean and $3::text is null and not exists (select from subscribers)
