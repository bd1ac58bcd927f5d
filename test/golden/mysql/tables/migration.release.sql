delete from `txbox_migrations`
where number = 0 and title = ?
