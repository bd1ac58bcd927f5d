update "txbox".leases as l
set expires_at = pg_catalog.clock_timestamp() + $4::double precision * interval '1 millisecond'
from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::bigint[])) as held (name, term)
where l.name = held.name and l.term = held.term and l.owner = $3 and l.expires_at > pg_catalog.clock_timestamp()
returning l.name
