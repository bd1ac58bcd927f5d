with held as materialized (
  select true as found, expires_at from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
), suspects as materialized (
  select found.*, true as suspect from held cross join rows from (pg_catalog.unnest($6::bigint[]), pg_catalog.unnest($7::timestamptz[])) as wanted (seq, stamp) cross join lateral (
      select o.seq, o.key, least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) as stamp from "txbox".local_outbox as o
      where o.consumer = $4::text and o.shard = $5::smallint and o.seq = wanted.seq and least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp
      limit 1
    ) as found
), wanted as materialized (
  select s.seq, s.stamp, s.suspect from suspects as s
  union all
  select o.seq, least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz), false
  from (select s.key, pg_catalog.max(s.seq) as seq from suspects as s where s.key is not null group by s.key) as last
  join "txbox".local_outbox as o on o.consumer = $4::text and o.shard = $5::smallint and o.seq < last.seq and o.key = last.key
  where not exists (select from suspects as s where s.seq = o.seq)
), locked as materialized (
  select found.* from held cross join wanted cross join lateral (
      select o.seq, o.key, o.ctid as address from "txbox".local_outbox as o
      where o.consumer = $4::text and o.shard = $5::smallint and o.seq = wanted.seq and least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp and held.found
      limit 1
      for update of o skip locked
    ) as found
), missed as materialized (
  select found.* from held cross join wanted cross join lateral (
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
  insert into "txbox".local_parked (created_at, due_at, attempts, shard, suspect, consumer, order_key, id, topic, key, type, content_type, headers, correlation_id, trace_context, payload)
  select m.created_at, case when m.key is null or m.is_first and not exists (
      select from "txbox".local_parked as p
      where p.consumer = m.consumer and p.shard = m.shard and p.order_key = m.key
    ) then pg_catalog.clock_timestamp() end,
    0, m.shard, m.suspect, m.consumer, m.key, m.id, m.topic, m.key, m.type, m.content_type, m.headers, m.correlation_id, m.trace_context, m.payload
  from (
    select moved.*, w.suspect, pg_catalog.row_number() over (partition by moved.key order by moved.seq) = 1 as is_first
    from moved join wanted as w on w.seq = moved.seq
  ) as m
  order by m.seq
  returning place
)
select (select pg_catalog.string_agg(m.seq::text, ',') from moved as m) as done,
  (select pg_catalog.string_agg(l.seq::text, ',') from movable as l where not exists (select from moved as m where m.seq = l.seq)) as kept,
  (case when (select pg_catalog.count(*) from moved) <> (select pg_catalog.count(*) from stored)
    then 'Something keeps messages from being parked.' end)::boolean::text as lost
from held
