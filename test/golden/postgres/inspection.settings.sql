select current_setting('server_version') as version, current_setting('server_version_num') as version_number,
  current_setting('default_transaction_isolation') as isolation, current_setting('autovacuum') as autovacuum,
  current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous_commit,
  pg_is_in_recovery()::text as replica
