with gone as (
  delete from "txbox".queue
  where ctid = any (array(
    select q.ctid from "txbox".queue as q
    where q.topic = $1 and q.shard = $2 and q.order_key is not null and q.due_at is null
    limit $3
    for update skip locked
  ))
  returning order_key, due_at
)
select (select pg_catalog.count(*) from gone where gone.due_at is distinct from timestamptz 'epoch')::text as removed,
  (select pg_catalog.count(*) from gone)::text as deleted,
  pg_catalog.to_json(array(select distinct gone.order_key from gone where gone.order_key is not null))::text as keys
