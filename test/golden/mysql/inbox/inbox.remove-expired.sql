delete from `txbox_inbox`
where consumer = ? and `key` = ?
