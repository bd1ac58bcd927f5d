select (select pg_catalog.count(*) from (select from "txbox".queue as q where q.topic = $1 and q.shard = $2 and q.order_key = $3 limit 1000) as counted)::text as waiting,
  (exists (
    select from (select q.due_at from "txbox".queue as q where q.topic = $1 and q.shard = $2 and q.order_key = $3 order by q.topic, q.shard, q.order_key, q.place limit 1000) as first
    where first.due_at is not null
  ) or exists (
    select from (
      select q.due_at from "txbox".queue as q where q.topic = $1 and q.shard = $2 and q.order_key = $3 order by q.topic desc, q.shard desc, q.order_key desc, q.place desc limit 1000
    ) as last
    where last.due_at is not null
  ))::text as goes_on
