select hex(head.order_key) as `key`, cast(head.topic as binary) as topic, hex(head.id) as id,
  cast(head.attempts as char) as attempts, cast(head.error as binary) as error, cast(held.waiting as char) as waiting
from (
  select order_key, min(place) as place, count(*) - 1 as waiting
  from (select order_key, place from `txbox_parked` where order_key is not null limit 100000) as held_up
  group by order_key
  order by count(*) desc, order_key
  limit ?
) as held
join `txbox_parked` as head on head.place = held.place
order by held.waiting desc, head.order_key
