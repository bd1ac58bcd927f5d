update "txbox".leases as l
set expires_at = clock_timestamp() + $4::double precision * interval '1 millisecond'
from unnest($1::text[], $2::bigint[]) as mine (name, term)
where l.name = mine.name and l.term = mine.term and l.owner = $3 and l.expires_at > clock_timestamp()
returning l.name
