select pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended(pg_catalog.concat_ws(pg_catalog.chr(31), $1::text, $2::text) collate "C", 2088571549))::text as free
