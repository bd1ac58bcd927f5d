with chosen as materialized (
  select place, topic, shard, order_key from "txbox".queue
  where topic = $1::text and place = $2::bigint and receipt = $3::uuid and due_at > pg_catalog.clock_timestamp()
  for update
), buried as (
  update "txbox".queue as q
  set dead_at = pg_catalog.clock_timestamp(), due_at = null, receipt = null, order_key = null, error = $4
  from chosen
  where q.place = chosen.place
  returning q.place
), freed as (
  insert into "txbox".queue (topic, shard, order_key, due_at, id, content_type, headers, payload)
  select chosen.topic, chosen.shard, chosen.order_key, timestamptz 'epoch', '', '', '', ''
  from chosen join buried using (place)
  where chosen.order_key is not null
)
select place::text as place from buried
