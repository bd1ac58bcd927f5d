update `txbox_versions`
set version = ?, waiting = cast(waiting as signed) + ?
where consumer = ? and `key` = ? and version = ?
