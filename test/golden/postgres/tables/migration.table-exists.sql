select (pg_catalog.to_regclass($1) is not null)::text as there
