show global variables
where variable_name in ('wsrep_on', 'group_replication_single_primary_mode')
