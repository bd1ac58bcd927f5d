select exists (select from "txbox".subscriptions as s where s.consumer = $2 and ($3::text is null or s.type = $3))::text as subscribed,
  (select pg_catalog.count(*) from (
    select from "txbox".local_outbox as o where o.consumer = $2 and ($3::text is null or o.type = $3)
    union all select from "txbox".local_parked as m where m.consumer = $2 and ($3::text is null or m.type = $3) and m.dead_at is null
    limit $1
  ) as counted)::text as waiting,
  (select pg_catalog.count(*) from (select from "txbox".local_parked as m where m.consumer = $2 and ($3::text is null or m.type = $3) and m.dead_at is not null limit $1) as counted)::text as dead
