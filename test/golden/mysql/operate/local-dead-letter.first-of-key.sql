(select cast(p.place as char) as place
from `txbox_local_parked` as p force index (local_parked_order)
where p.consumer = ? and p.shard = ? and p.order_key = ?
order by p.place
limit 1)
