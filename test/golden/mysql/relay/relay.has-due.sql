(select cast(? as char) as shard, '1' as due, null as server from `txbox_parked` as p where p.shard = ? and p.due_at <= utc_timestamp(6) and p.dead_at is null limit 1)
