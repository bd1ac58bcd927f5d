select o.payload as payload
from `txbox_outbox` as o
where o.shard = ? and o.seq = ? and o.created_at = cast('1970-01-01' as datetime(6)) + interval ? microsecond
