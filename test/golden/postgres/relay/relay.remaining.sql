select pg_catalog.count(*)::text as remaining
from rows from (pg_catalog.unnest($2::bigint[]), pg_catalog.unnest($3::timestamptz[])) as wanted (seq, stamp) cross join lateral (
      select o.ctid from "txbox".outbox as o
      where o.shard = $1 and o.seq = wanted.seq and least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp
      limit 1
    ) as found
