with held as materialized (
  select true as found, expires_at from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
), verdicts as materialized (
  select * from rows from (pg_catalog.unnest($6::bigint[]), pg_catalog.unnest($7::timestamptz[]), pg_catalog.unnest($8::integer[]), pg_catalog.unnest($9::double precision[]), pg_catalog.unnest($10::boolean[]), pg_catalog.unnest($11::text[]), pg_catalog.unnest($12::text[]), pg_catalog.unnest($13::boolean[]), pg_catalog.unnest($14::boolean[]))
    as wanted (seq, stamp, attempts, retry_ms, dead, error, errors, suspect, unhandled)
), locked as materialized (
  select found.* from held cross join verdicts as wanted cross join lateral (
      select o.seq, o.key, o.ctid as address from "txbox".local_outbox as o
      where o.consumer = $4::text and o.shard = $5::smallint and o.seq = wanted.seq and least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp and held.found
      limit 1
      for update of o skip locked
    ) as found
), missed as materialized (
  select found.* from held cross join verdicts as wanted cross join lateral (
      select o.seq, o.key from "txbox".local_outbox as o
      where o.consumer = $4::text and o.shard = $5::smallint and o.seq = wanted.seq and least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp
      limit 1
    ) as found
  where not exists (select from locked as l where l.seq = found.seq)
), movable as materialized (
  select l.* from locked as l
  where not exists (select from missed as m where m.key = l.key and m.seq < l.seq)
), moved as (
  delete from "txbox".local_outbox as o
  where o.ctid = any (array(select m.address from movable as m))
  returning o.*
), stored as (
  insert into "txbox".local_parked (created_at, due_at, dead_at, attempts, shard, suspect, unhandled, consumer, order_key, id, topic, key, type, content_type, headers, correlation_id, trace_context,
    error, errors, payload)
  select m.created_at, pg_catalog.clock_timestamp() + v.retry_ms * interval '1 millisecond', case when v.dead then pg_catalog.clock_timestamp() end,
    v.attempts, m.shard, v.suspect, v.unhandled, m.consumer, case when not v.dead then m.key end, m.id, m.topic, m.key, m.type, m.content_type, m.headers, m.correlation_id, m.trace_context,
    v.error, v.errors, m.payload
  from moved as m join verdicts as v on v.seq = m.seq
  order by m.seq
  returning place
)
select (select pg_catalog.string_agg(m.seq::text, ',') from moved as m) as done,
  (select pg_catalog.string_agg(l.seq::text, ',') from movable as l where not exists (select from moved as m where m.seq = l.seq)) as kept,
  (case when (select pg_catalog.count(*) from moved) <> (select pg_catalog.count(*) from stored)
    then 'Something keeps messages from being parked.' end)::boolean::text as lost
from held
