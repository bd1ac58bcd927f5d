update `txbox_versions`
set version = ?, waiting = greatest(cast(waiting as signed) + ?, 0)
where consumer = ? and `key` = ? and version = ?
