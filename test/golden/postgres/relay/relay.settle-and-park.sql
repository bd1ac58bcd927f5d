with held as materialized (
  select 1 from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
  for key share
), verdicts as materialized (
  select * from rows from (pg_catalog.unnest($7::bigint[]), pg_catalog.unnest($8::timestamptz[]), pg_catalog.unnest($9::integer[]), pg_catalog.unnest($10::double precision[]), pg_catalog.unnest($11::boolean[]), pg_catalog.unnest($12::text[]), pg_catalog.unnest($13::text[]), pg_catalog.unnest($14::boolean[]))
    as wanted (seq, stamp, attempts, retry_ms, dead, error, errors, suspect)
), settled as (
  delete from "txbox".outbox
  where ctid = any (array(
    select found.ctid
    from held cross join rows from (pg_catalog.unnest($5::bigint[]), pg_catalog.unnest($6::timestamptz[])) as wanted (seq, stamp) cross join lateral (
      select o.ctid from "txbox".outbox as o
      where o.shard = $4 and o.seq = wanted.seq and least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp
      limit 1
    ) as found
  ))
  returning seq
), moved as (
  delete from "txbox".outbox
  where ctid = any (array(
    select found.ctid
    from held cross join verdicts as wanted cross join lateral (
      select o.ctid from "txbox".outbox as o
      where o.shard = $4 and o.seq = wanted.seq and least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp
      limit 1
    ) as found
  ))
  returning *
), stored as (
  insert into "txbox".parked (created_at, due_at, dead_at, attempts, shard, suspect, order_key, id, topic, key, type,
    content_type, headers, correlation_id, trace_context, error, errors, payload)
  select m.created_at, pg_catalog.clock_timestamp() + v.retry_ms * interval '1 millisecond', case when v.dead then pg_catalog.clock_timestamp() end,
    v.attempts, m.shard, v.suspect, case when not v.dead then m.key end, m.id, m.topic, m.key, m.type, m.content_type,
    m.headers, m.correlation_id, m.trace_context, v.error, v.errors, m.payload
  from moved as m join verdicts as v on v.seq = m.seq
  order by m.seq
  returning place
), counted as (
  select (select pg_catalog.count(*) from moved) as moved, (select pg_catalog.count(*) from stored) as stored
)
select (select pg_catalog.count(*) from settled)::text as settled, counted.moved::text as moved,
  (case when counted.moved <> counted.stored then 'Something keeps messages from being parked.' end)::boolean::text as kept
from held cross join counted
