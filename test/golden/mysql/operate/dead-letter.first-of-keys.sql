(select cast(p.place as char) as place
from `txbox_parked` as p force index (parked_order)
where p.shard = ? and p.order_key = ?
order by p.place
limit 1)
union all
(select cast(p.place as char) as place
from `txbox_parked` as p force index (parked_order)
where p.shard = ? and p.order_key = ?
order by p.place
limit 1)
