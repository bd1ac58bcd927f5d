update `txbox_waiting`
set dead_at = utc_timestamp(6), reason = ?
where consumer = ? and `key` = ? and from_version in (?) and dead_at is null
