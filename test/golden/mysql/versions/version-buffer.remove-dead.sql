delete from `txbox_waiting`
where consumer = ? and `key` = ? and from_version in (?) and dead_at is not null
