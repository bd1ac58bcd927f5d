delete from `txbox_local_outbox`
where consumer = ? and shard = ? and seq = ? and least(greatest(`txbox_local_outbox`.created_at, cast('1700-01-01' as datetime(6))), cast('2200-01-01' as datetime(6))) = cast('1970-01-01' as datetime(6)) + interval ? microsecond
