select pg_catalog.version() as version
