delete p
from json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$[0]', stamp bigint path _utf8mb4'$[1]')) as j
straight_join `txbox_local_parked` as p force index (primary) on p.place = j.place
where p.consumer = ? and p.shard = ? and p.dead_at is null and least(greatest(p.created_at, cast('1700-01-01' as datetime(6))), cast('2200-01-01' as datetime(6))) = cast('1970-01-01' as datetime(6)) + interval j.stamp microsecond
