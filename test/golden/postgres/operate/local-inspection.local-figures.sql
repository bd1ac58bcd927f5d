select
  (select pg_catalog.count(*) from (select from "txbox".local_outbox as o where o.consumer = $2 limit $1) as counted)::text as waiting,
  (select pg_catalog.count(*) from (select from "txbox".local_parked as m where m.consumer = $2 and m.dead_at is null and m.deliver_at is null limit $1) as counted)::text as parked,
  (select pg_catalog.count(*) from (select from "txbox".local_parked as m where m.consumer = $2 and m.dead_at is null and m.deliver_at is not null limit $1) as counted)::text as scheduled,
  (select pg_catalog.count(*) from (select from "txbox".local_parked as m where m.consumer = $2 and m.dead_at is not null limit $1) as counted)::text as dead
