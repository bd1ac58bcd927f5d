select cast(@@innodb_lock_wait_timeout as char) as seconds, cast(@@transaction_isolation as char) as isolation
