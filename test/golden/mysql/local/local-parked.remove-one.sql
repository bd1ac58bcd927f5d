delete from `txbox_local_parked`
where place = ? and least(greatest(`txbox_local_parked`.created_at, cast('1700-01-01' as datetime(6))), cast('2200-01-01' as datetime(6))) = cast('1970-01-01' as datetime(6)) + interval ? microsecond and consumer = ? and shard = ? and dead_at is null
