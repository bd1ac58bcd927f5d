with free as materialized (
  select name, (owner is not null)::text as after_crash
  from "txbox".leases
  where name = any ($1::text[]) and (expires_at is null or expires_at <= clock_timestamp())
  order by name
  limit $4
  for update skip locked
)
update "txbox".leases as l
set owner = $2, term = l.term + 1, expires_at = clock_timestamp() + $3::double precision * interval '1 millisecond'
from free
where l.name = free.name
returning l.name, l.term::text as term, free.after_crash
