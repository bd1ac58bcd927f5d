select hex(m.type) as type
from `txbox_subscriptions` as m
where m.consumer = ?
  and cast(m.type as binary) = ?
order by m.type
