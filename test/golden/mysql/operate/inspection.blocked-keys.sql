select cast(count(*) as char) as blocked, cast(coalesce(sum(held.messages), 0) as char) as messages
from (
  select count(*) as messages
  from (select shard, order_key from `txbox_parked` where order_key is not null limit ?) as held_up
  group by shard, order_key
) as held
