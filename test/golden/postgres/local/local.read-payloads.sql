select o.seq::text as seq, pg_catalog.encode(o.payload, 'hex') as payload
from "txbox".local_outbox as o
where o.consumer = $4::text and o.shard = $1 and o.seq = any ($2::bigint[])
  and (o.seq, least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz)) in (select pg_catalog.unnest($2::bigint[]), pg_catalog.unnest($3::timestamptz[]))
