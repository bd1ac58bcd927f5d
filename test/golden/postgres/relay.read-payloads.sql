select o.seq::text as seq, encode(o.payload, 'hex') as payload
from "txbox".outbox as o
where o.shard = $1 and o.seq = any ($2::bigint[])
