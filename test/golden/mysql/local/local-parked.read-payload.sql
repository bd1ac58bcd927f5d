select p.payload as payload
from `txbox_local_parked` as p
where p.place = ? and least(greatest(p.created_at, cast('1700-01-01' as datetime(6))), cast('2200-01-01' as datetime(6))) = cast('1970-01-01' as datetime(6)) + interval ? microsecond
