select cast(m.shard as char) as shard, cast(m.seq as char) as seq
from json_table(?, '$[*]' columns (shard smallint unsigned path '$[0]', seq bigint unsigned path '$[1]')) as j
straight_join `txbox_local_outbox` as m force index (primary) on m.consumer = ? and m.shard = j.shard and m.seq = j.seq
for update of m skip locked
