select relname::text as name, n_dead_tup::text as dead, n_live_tup::text as live
from pg_catalog.pg_stat_user_tables
where schemaname = $1 and n_dead_tup > 100000 and n_dead_tup > n_live_tup
