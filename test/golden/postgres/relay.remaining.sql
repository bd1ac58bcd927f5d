select pg_catalog.count(*)::text as remaining
from rows from (pg_catalog.unnest($2::bigint[]), pg_catalog.unnest($3::timestamptz[])) as wanted (seq, stamp) cross join lateral (
      select o.ctid from "txbox".outbox as o
      where o.shard = $1 and o.seq = wanted.seq and o.created_at = wanted.stamp
      limit 1
    ) as found
