with unused as materialized (
  select name
  from "txbox".leases
  where pg_catalog.starts_with(name, $1)
    and (owner is null or expires_at < pg_catalog.clock_timestamp() - $2::double precision * interval '1 millisecond')
  order by name
  for update skip locked
)
delete from "txbox".leases as l
using unused
where l.name = unused.name
