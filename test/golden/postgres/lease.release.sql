update "txbox".leases as l
set owner = null, expires_at = null
from unnest($1::text[], $2::bigint[]) as mine (name, term)
where l.name = mine.name and l.term = mine.term and l.owner = $3
