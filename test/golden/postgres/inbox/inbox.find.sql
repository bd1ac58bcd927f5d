select 'true' as live
from "txbox".inbox
where consumer = $1 and key = $2 and expires_at > pg_catalog.clock_timestamp()
