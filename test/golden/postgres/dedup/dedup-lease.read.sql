select (expires_at > pg_catalog.clock_timestamp())::text as live, (token = $3::uuid)::text as own,
  pg_catalog.floor(pg_catalog.date_part('epoch', processed_at) * 1000::double precision)::bigint::text as processed_at,
  pg_catalog.ceil(pg_catalog.date_part('epoch', expires_at - pg_catalog.clock_timestamp()) * 1000::double precision)::bigint::text as remaining_ms,
  result, pg_catalog.encode(content_hash, 'hex') as content_hash
from "txbox".dedup_leases
where consumer = $1 and key = $2
