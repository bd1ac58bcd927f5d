select (expires_at > pg_catalog.clock_timestamp())::text as live, pg_catalog.floor(pg_catalog.date_part('epoch', nullif(nullif(processed_at, 'infinity'::timestamptz), '-infinity'::timestamptz)) * 1000::double precision)::bigint::text as processed_at, correlation_id, result,
  pg_catalog.encode(content_hash, 'hex') as content_hash
from "txbox".inbox
where consumer = $1 and key = $2
