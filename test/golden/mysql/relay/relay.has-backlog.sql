(select cast(? as char) as shard, '0' as due, null as server from `txbox_outbox` as o where o.shard = ? limit 1)
