select cast(o.seq as char) as seq
from `txbox_local_outbox` as o force index (primary)
where o.consumer = ? and o.shard = ? and o.seq = ? and least(greatest(o.created_at, cast('1700-01-01' as datetime(6))), cast('2200-01-01' as datetime(6))) = cast('1970-01-01' as datetime(6)) + interval ? microsecond
  and (select count(*) from `txbox_leases` as l where l.name = ? and l.owner = ? and l.term = ? and l.expires_at > utc_timestamp(6)) = 1
for update skip locked
