delete from `txbox_local_outbox`
where seq >= ? and id in (?)
