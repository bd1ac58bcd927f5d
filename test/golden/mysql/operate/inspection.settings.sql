show variables where variable_name in (
  'transaction_isolation', 'tx_isolation', 'read_only', 'innodb_flush_log_at_trx_commit', 'max_allowed_packet', 'wsrep_on',
  'group_replication_single_primary_mode'
)
