with held as materialized (
  select 1 from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > clock_timestamp()
  for key share
), verdicts as materialized (
  select wanted.seq, wanted.attempts, wanted.retry_ms, wanted.dead, wanted.error
  from unnest($6::bigint[], $7::integer[], $8::double precision[], $9::boolean[], $10::text[])
    as wanted (seq, attempts, retry_ms, dead, error)
), settled as (
  delete from "txbox".outbox
  where ctid = any (array(
    select found.ctid
    from held cross join unnest($5::bigint[]) as wanted (seq)
    cross join lateral (
      select o.ctid from "txbox".outbox as o where o.shard = $4 and o.seq = wanted.seq limit 1
    ) as found
  ))
), moved as (
  delete from "txbox".outbox
  where ctid = any (array(
    select found.ctid
    from held cross join verdicts as wanted
    cross join lateral (
      select o.ctid from "txbox".outbox as o where o.shard = $4 and o.seq = wanted.seq limit 1
    ) as found
  ))
  returning *
), parked as (
  insert into "txbox".parked (created_at, due_at, dead_at, attempts, shard, order_key, id, topic, key, type, content_type,
    headers, correlation_id, trace_context, error, payload)
  select m.created_at, clock_timestamp() + v.retry_ms * interval '1 millisecond', case when v.dead then clock_timestamp() end,
    v.attempts, m.shard, case when not v.dead then m.key end, m.id, m.topic, m.key, m.type, m.content_type, m.headers,
    m.correlation_id, m.trace_context, v.error, m.payload
  from moved as m join verdicts as v on v.seq = m.seq
  order by m.seq
)
select true as held from held
