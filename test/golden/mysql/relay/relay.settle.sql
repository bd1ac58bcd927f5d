delete o
from `txbox_leases` as l
straight_join json_table(?, _utf8mb4'$[*]' columns (seq bigint unsigned path _utf8mb4'$[0]', stamp bigint path _utf8mb4'$[1]')) as accepted
straight_join `txbox_outbox` as o force index (primary) on o.shard = ? and o.seq = accepted.seq
where l.name = ? and l.owner = ? and l.term = ? and l.expires_at > utc_timestamp(6) and least(greatest(o.created_at, cast('1700-01-01' as datetime(6))), cast('2200-01-01' as datetime(6))) = cast('1970-01-01' as datetime(6)) + interval accepted.stamp microsecond
