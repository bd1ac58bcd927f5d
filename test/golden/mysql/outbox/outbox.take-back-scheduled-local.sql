delete from `txbox_local_parked`
where place >= ? and id in (?)
