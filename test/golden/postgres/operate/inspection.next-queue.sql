select least(
  (select q.topic from "txbox".queue as q where q.due_at is not null and q.topic > $1 order by q.topic, q.shard, q.due_at, q.place limit 1),
  (select q.topic from "txbox".queue as q where q.order_key is not null and q.topic > $1 order by q.topic, q.shard, q.order_key, q.place limit 1),
  (select q.topic from "txbox".queue as q where q.dead_at is not null and q.topic > $1 order by q.topic, q.id, q.place limit 1)
) as topic
