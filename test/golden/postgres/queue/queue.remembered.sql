select (expires_at > pg_catalog.clock_timestamp())::text as live, result,
  (extract(epoch from pg_catalog.clock_timestamp()) * 1000000::numeric)::bigint::text as now_us
from "txbox".inbox
where consumer = $1 and key = $2
for update
