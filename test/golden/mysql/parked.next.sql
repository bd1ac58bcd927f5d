(select cast(p.place as char) as place, p.due_at is null as waits
from `txbox_parked` as p force index (parked_order)
where p.shard = ? and p.order_key = ? and p.place > ?
order by p.place
limit 1)
