select found.seq::text as seq
from rows from (pg_catalog.unnest($3::bigint[]), pg_catalog.unnest($4::timestamptz[])) as wanted (seq, stamp) cross join lateral (
      select o.seq from "txbox".local_outbox as o
      where o.consumer = $1::text and o.shard = $2::smallint and o.seq = wanted.seq and least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp
      limit 1
    ) as found
