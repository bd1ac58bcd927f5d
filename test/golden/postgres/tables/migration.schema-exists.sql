select (pg_catalog.to_regnamespace($1) is not null)::text as there
