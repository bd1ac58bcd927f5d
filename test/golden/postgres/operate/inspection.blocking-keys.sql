select head.order_key as key, head.topic, head.id, head.attempts::text as attempts, head.error, held.waiting::text as waiting
from (
  select order_key, pg_catalog.min(place) as place, pg_catalog.count(*) - 1 as waiting
  from (select order_key, place from "txbox".parked where order_key is not null limit 100000) as held_up
  group by order_key
  order by pg_catalog.count(*) desc, order_key
  limit $1
) as held
join "txbox".parked as head on head.place = held.place
order by held.waiting desc, head.order_key
