update `txbox_versions`
set version = ?, waiting = ?
where consumer = ? and `key` = ?
