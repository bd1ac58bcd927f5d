update `txbox_inbox` force index (primary)
set result = ?
where consumer = ? and `key` = ?
