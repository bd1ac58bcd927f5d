select cast(o.seq as char) as seq, cast(o.`key` as binary) as order_key, cast(timestampdiff(microsecond, '1970-01-01', o.created_at) as char) as stamp
from `txbox_local_outbox` as o force index (primary)
where o.consumer = ? and o.shard = ? and o.seq <= ? and cast(o.`key` as binary) in (?)
order by o.seq
limit ?
