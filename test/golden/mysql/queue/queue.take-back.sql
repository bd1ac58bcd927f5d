delete from `txbox_queue`
where place >= ? and id in (?)
