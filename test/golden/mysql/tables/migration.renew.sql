update `txbox_migrations`
set applied_at = utc_timestamp(6) + interval 30 second
where number = 0 and title = ?
