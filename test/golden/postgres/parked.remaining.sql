select pg_catalog.count(*)::text as remaining
from rows from (pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2::timestamptz[])) as wanted (place, stamp) cross join lateral (
      select f.ctid from "txbox".parked as f
      where f.place = wanted.place and f.created_at = wanted.stamp and f.dead_at is null
      limit 1
    ) as found
