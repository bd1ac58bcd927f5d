select pg_catalog.pg_notify($1, $2)
