select cast(p.place as char) as seq
from `txbox_local_parked` as p force index (primary)
where p.place = ? and least(greatest(p.created_at, cast('1700-01-01' as datetime(6))), cast('2200-01-01' as datetime(6))) = cast('1970-01-01' as datetime(6)) + interval ? microsecond and p.consumer = ? and p.shard = ? and p.dead_at is null
  and (select count(*) from `txbox_leases` as l where l.name = ? and l.owner = ? and l.term = ? and l.expires_at > utc_timestamp(6)) = 1
for update of p skip locked
