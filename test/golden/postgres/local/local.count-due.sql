select ((select pg_catalog.count(*) from (
    select from "txbox".local_outbox as o where o.consumer = $1::text limit $2::bigint
  ) as waiting) + (select pg_catalog.count(*) from (
    select from "txbox".local_parked as p
    where p.consumer = $1::text and p.due_at <= pg_catalog.statement_timestamp() and p.dead_at is null
    limit $2::bigint
  ) as due))::text as due
