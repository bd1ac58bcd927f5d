update "txbox".leases as l
set owner = null, expires_at = null,
  crashes = least(l.crashes, 1000000) + case when l.name = any ($4::text[]) then 1 else 0 end,
  in_flight = case when l.name = any ($4::text[]) then l.in_flight end
from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::bigint[])) as held (name, term)
where l.name = held.name and l.term = held.term and l.owner = $3
