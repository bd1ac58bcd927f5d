with held as materialized (
  select 1 from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > clock_timestamp()
  for key share
), settled as (
  delete from "txbox".outbox
  where ctid = any (array(
    select found.ctid
    from held cross join unnest($5::bigint[]) as wanted (seq)
    cross join lateral (
      select o.ctid from "txbox".outbox as o where o.shard = $4 and o.seq = wanted.seq limit 1
    ) as found
  ))
)
select true as held from held
