select p.place::text as seq, pg_catalog.encode(p.payload, 'hex') as payload
from "txbox".parked as p
where p.place = any ($1::bigint[])
  and (p.place, p.created_at) in (select pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2::timestamptz[]))
