select o.payload as payload
from `txbox_outbox` as o
where o.shard = ? and o.seq = ?
