select pg_catalog.count(*)::text as remaining
from rows from (pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2::timestamptz[])) as wanted (place, stamp) cross join lateral (
      select f.ctid from "txbox".local_parked as f
      where f.place = wanted.place and least(greatest(f.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp and f.dead_at is null
      limit 1
    ) as found
