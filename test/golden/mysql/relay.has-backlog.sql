(select ? as shard, 0 as due from `txbox_outbox` as o where o.shard = ? limit 1)
