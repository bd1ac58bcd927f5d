delete from `txbox_outbox`
where seq >= ? and id in (?)
