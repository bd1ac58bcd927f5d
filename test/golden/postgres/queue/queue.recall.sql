select q.place::text as place, q.receipt::text as receipt, (extract(epoch from q.due_at) * 1000000::numeric)::bigint::text as due_us
from "txbox".queue as q
where q.place = any ($1::bigint[]) and q.receipt is not null
for update skip locked
