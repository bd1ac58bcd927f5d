select pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended($1, 0))::text as locked
