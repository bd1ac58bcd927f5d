with messages as materialized (
  select * from rows from (
  pg_catalog.unnest($1::smallint[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::text[]), pg_catalog.unnest($4::text[]),
  pg_catalog.unnest($5::text[]), pg_catalog.unnest($6::text[]), pg_catalog.unnest($7::text[]), pg_catalog.unnest($8::text[]),
  pg_catalog.unnest($9::text[]), pg_catalog.unnest($10::bytea[]), pg_catalog.unnest($15::double precision[])
) with ordinality as given (shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload, at_ms, n)
), subscribers as materialized (
  select given.n, given.consumer collate "C" as consumer
  from rows from (pg_catalog.unnest($11::bigint[]), pg_catalog.unnest($12::text[])) as given (n, consumer)
  union
  select m.n, s.consumer
  from messages as m join "txbox".subscriptions as s on s.type = m.type
  where $13::boolean
), unrouted as materialized (
  select m.n, m.type
  from messages as m
  where $14::boolean and m.topic is null and not exists (select from subscribers as s where s.n = m.n)
), published as (
  insert into "txbox".outbox (shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload)
  select shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload
  from messages as m
  where m.topic is not null and m.at_ms is null and not exists (select from unrouted)
  order by m.n
), scheduled as (
  insert into "txbox".parked (shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload, deliver_at, due_at)
  select shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload, instant.at, instant.at
  from messages as m cross join lateral pg_catalog.to_timestamp(m.at_ms / 1000::double precision) as instant (at)
  where m.topic is not null and m.at_ms is not null and not exists (select from unrouted)
), stored as (
  insert into "txbox".local_outbox (consumer, shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload)
  select s.consumer, shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload
  from messages as m join subscribers as s on s.n = m.n
  where m.at_ms is null and not exists (select from unrouted)
  order by m.n, s.consumer
), stored_for_later as (
  insert into "txbox".local_parked (consumer, shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload, deliver_at, due_at)
  select s.consumer, shard, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload, instant.at, instant.at
  from messages as m join subscribers as s on s.n = m.n
    cross join lateral pg_catalog.to_timestamp(m.at_ms / 1000::double precision) as instant (at)
  where m.at_ms is not null and not exists (select from unrouted)
)
select u.type from unrouted as u order by u.n
