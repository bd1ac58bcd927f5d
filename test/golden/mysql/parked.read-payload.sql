select p.payload as payload
from `txbox_parked` as p
where p.place = ? and p.created_at = cast('1970-01-01' as datetime(6)) + interval ? microsecond
