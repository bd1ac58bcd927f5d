with held as materialized (
  select 1 from "txbox".leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > clock_timestamp()
  for key share
), following as (
  update "txbox".parked as p
  set due_at = null
  from held
  where p.place = any ($4::bigint[]) and p.dead_at is null
)
select true as held from held
