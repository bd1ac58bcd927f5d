select p.place::text as seq, pg_catalog.encode(p.payload, 'hex') as payload
from "txbox".local_parked as p
where p.place = any ($1::bigint[])
  and (p.place, least(greatest(p.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz)) in (select pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2::timestamptz[]))
