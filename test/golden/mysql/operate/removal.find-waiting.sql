select cast(m.shard as char) as shard, cast(m.seq as char) as seq
from `txbox_local_outbox` as m force index (primary)
where m.consumer = ? and (m.shard > ? or (m.shard = ? and m.seq > ?))
  and cast(m.type as binary) = ?
order by m.shard, m.seq
limit ?
