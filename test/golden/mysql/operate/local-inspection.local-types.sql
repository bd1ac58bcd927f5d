select s.type as type
from `txbox_subscriptions` as s
where s.consumer = ?
order by s.type
limit 1000
