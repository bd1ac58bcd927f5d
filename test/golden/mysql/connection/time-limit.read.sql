select /*+ set_var(lock_wait_timeout=4) max_execution_time(4500) set_var(sql_select_limit=18446744073709551615) set_var(sql_big_selects=1) */ hex(name) as name, hex(owner) as owner
from `txbox_leases`
where left(name, ?) = ? and expires_at > utc_timestamp(6)
order by name
