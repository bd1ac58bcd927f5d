select cast(@@innodb_rollback_on_timeout + 0 as char) as answer
