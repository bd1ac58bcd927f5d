select hex(min(first.consumer)) as consumer
from (
  (select o.consumer from `txbox_local_outbox` as o force index (primary) where o.consumer > ? order by o.consumer limit 1)
  union all
  (
    select m.consumer from `txbox_local_parked` as m force index (local_parked_due_since)
    where m.consumer > ?
    order by m.consumer
    limit 1
  )
  union all
  (select min(s.consumer) from `txbox_subscriptions` as s where s.consumer > ?)
) as first
