delete from "txbox".inbox
where consumer = $1 and key = $2
returning (expires_at > pg_catalog.clock_timestamp())::text as live
