update "txbox".collections
set finished_at = pg_catalog.clock_timestamp(), inbox = $1::bigint, dead_letters = $2::bigint, duration_ms = $3::bigint
where id = (select id from "txbox".collections where id = 1 for update skip locked)
