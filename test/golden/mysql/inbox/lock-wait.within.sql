set statement innodb_lock_wait_timeout = 0 for select 1
