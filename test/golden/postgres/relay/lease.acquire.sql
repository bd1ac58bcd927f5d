with free as materialized (
  select name
  from "txbox".leases
  where name = any ($1::text[]) and (expires_at is null or expires_at <= pg_catalog.clock_timestamp())
  order by name
  limit $4
  for update skip locked
)
update "txbox".leases as l
set owner = $2, term = l.term + 1, expires_at = pg_catalog.clock_timestamp() + $3::double precision * interval '1 millisecond',
  crashes = least(l.crashes, 1000000) + case when l.owner is null then 0 else 1 end
from free
where l.name = free.name
returning l.name, l.term::text as term, l.crashes::text as crashes, l.in_flight
