select hex(k.type) as type
from `txbox_subscriptions` as k
group by k.type
order by k.type
limit ?
