select pg_catalog.current_setting('server_version') as version, pg_catalog.current_setting('server_version_num') as version_number,
  pg_catalog.current_setting('default_transaction_isolation') as isolation, pg_catalog.current_setting('autovacuum') as autovacuum,
  pg_catalog.current_setting('fsync') as fsync, pg_catalog.current_setting('synchronous_commit') as synchronous_commit,
  pg_catalog.current_setting('max_prepared_transactions') as prepared, pg_catalog.pg_is_in_recovery()::text as replica
