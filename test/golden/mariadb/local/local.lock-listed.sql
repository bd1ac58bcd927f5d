select cast(o.seq as char) as seq, cast(o.`key` as binary) as order_key
from json_table(?, _utf8mb4'$[*]' columns (seq bigint unsigned path _utf8mb4'$[0]', stamp bigint path _utf8mb4'$[1]')) as j
straight_join `txbox_local_outbox` as o force index (primary) on o.consumer = ? and o.shard = ? and o.seq = j.seq
where least(greatest(o.created_at, cast('1700-01-01' as datetime(6))), cast('2200-01-01' as datetime(6))) = cast('1970-01-01' as datetime(6)) + interval j.stamp microsecond
for update skip locked
