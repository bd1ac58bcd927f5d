delete from `txbox_parked`
where place >= ? and id in (?)
