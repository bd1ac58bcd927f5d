delete o
from json_table(?, '$[*]' columns (seq bigint unsigned path '$')) as gone
straight_join `txbox_outbox` as o force index (primary) on o.shard = ? and o.seq = gone.seq
