(select cast(? as char) as n from `txbox_local_parked` as p force index (local_parked_order) where p.consumer = ? and p.shard = ? and p.order_key = ? limit 1)
union all
(select cast(? as char) as n from `txbox_local_parked` as p force index (local_parked_order) where p.consumer = ? and p.shard = ? and p.order_key = ? limit 1)
