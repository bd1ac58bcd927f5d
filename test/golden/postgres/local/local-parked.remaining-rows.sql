select found.seq::text as seq
from rows from (pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2::timestamptz[])) as wanted (place, stamp) cross join lateral (
  select p.place as seq from "txbox".local_parked as p
  where p.place = wanted.place and least(greatest(p.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp and p.dead_at is null
  limit 1
) as found
