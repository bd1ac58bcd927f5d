select pg_catalog.pg_backend_pid()::text as id
